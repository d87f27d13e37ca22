"""Finds replicas that have a part, and fetches it from one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.nodes.replica_activation import ReplicaAddress, find_part_holders, read_addresses
from coordination.replicas.part_commit import ContentAgreement
from engine.interserver.replication import make_staged_endpoint
from engine.interserver.transfer import Transfer
from engine.tables.replicated.follow.row_positions import fill_fetched_position_in
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.services import RunningFetch
from parts.common.errors import CancelledError, CorruptionError, PandoError, UnavailableError
from parts.common.part_name import PartName


@dataclass(frozen=True)
class FetchSource:
    """A replica to fetch a part from."""

    replica_name: str
    url: str
    agreement: ContentAgreement | None = None
    """The content that it lists for the part, if that was read."""
    staged: str = ""
    """``<transaction>/<place>`` of a part that it has staged for a transaction and does not list yet."""
    root: str = ""
    """The znode path of a replica of another table."""


class PartFetcher:
    """The fetches of one replica."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._throttle = state.services.throttle(
            lambda: state.definition.settings.max_replicated_fetches_network_bandwidth
        )

    def find_sources(self, keeper: Keeper, name: PartName, likely: str = "") -> Iterator[list[FetchSource]]:
        """Yields active replicas that list the part:

        first the ``likely`` one alone, then all. Asking the likely one costs one round trip.
        """
        if likely not in ("", self._state.replica.name):
            yield list(self.find_parts_on(keeper, likely, [name]).values())
        yield self.find_holders(keeper, name)

    def find_parts_on(
        self, keeper: Keeper, replica_name: str, names: Sequence[PartName]
    ) -> dict[PartName, FetchSource]:
        """Returns those of the parts that the replica lists, if it is active. One round trip."""
        replica = self._state.paths.replica(replica_name)
        listings = [replica.part(str(name)) for name in names]
        active, host, *records = keeper.get_many([replica.is_active, replica.host, *listings])
        if active is None or host is None:
            return {}
        try:
            url = ReplicaAddress.parse(host[0]).interserver_url
            return {
                name: FetchSource(replica_name, url, ContentAgreement.read(listed, record))
                for name, listed, record in zip(names, listings, records, strict=True)
                if record is not None
            }
        except CorruptionError:
            return {}

    def find_holders(self, keeper: Keeper, name: PartName) -> list[FetchSource]:
        """Returns active replicas that list the part, in random order to spread the load."""
        paths = self._state.paths
        names = find_part_holders(keeper, paths, str(name), excluding=self._state.replica.name)
        self._state.services.random.shuffle(names)
        known = read_addresses(keeper, paths, names)
        if names and not known:
            raise UnavailableError("NO_REPLICA_HAS_PART", f"No replica with part {name} has a known address")
        return [FetchSource(name, known[name].interserver_url) for name in names if name in known]

    def can_fetch(self, keeper: Keeper, name: PartName | None) -> bool:
        """Tells whether an active replica has the part, as far as this one can know."""
        try:
            return name is not None and bool(self.find_holders(keeper, name))
        except PandoError:
            return False

    def fetch(self, keeper: Keeper, name: PartName, is_cancelled: Callable[[], bool]) -> Path:
        """Fetches the part from any replica that has it; see :meth:`fetch_from`.

        Raises 234 (NO_REPLICA_HAS_PART) if none has it, 236 (ABORTED) if no fetch slot of the server is free.
        """
        sources = self.find_holders(keeper, name)
        if not sources:
            raise UnavailableError(
                "NO_REPLICA_HAS_PART", f"No active replica has part {name} of {self._state.definition.full_name}"
            )
        with self._state.services.fetches.try_take() as is_taken:
            if not is_taken:
                raise UnavailableError("ABORTED", "background_fetches_pool_size parts are being fetched already")
            return self.fetch_from(name, sources, is_cancelled)[0]

    @contextmanager
    def track_transfer(
        self, name: PartName, directory: Path, endpoint: str, url: str, is_cancelled: Callable[[], bool]
    ) -> Iterator[Transfer]:
        """Lists the transfer in ``system.replicated_fetches`` while the block receives the part.

        The transfer is throttled as table and server settings say, and reserves disk space before the data comes.
        """
        services, definition = self._state.services, self._state.definition
        room = ExitStack()

        def reserve(size: int) -> None:
            room.close()  # of a response that broke off
            room.enter_context(services.disk.reserve(definition.data_path, size, f"fetching {name}"))

        transfer = Transfer(is_cancelled, (self._throttle, services.fetch_throttle), reserve)
        running = RunningFetch(
            definition.database, definition.name, name, directory, endpoint, url, services.clock(), transfer
        )
        services.running_fetches.append(running)
        try:
            with room:
                yield transfer
        finally:
            services.running_fetches.remove(running)

    def fetch_from(
        self, name: PartName, sources: list[FetchSource], is_cancelled: Callable[[], bool]
    ) -> tuple[Path, FetchSource]:
        """Fetches the part into a temporary directory from the first source that succeeds.

        Raises the last source's error if all fail. The caller holds one of the server's fetch slots.
        """
        failure: PandoError | None = None
        for source in sources:
            directory = self._state.store.create_temporary("tmp_fetch_")
            endpoint = source.root or self._state.paths.replica(source.replica_name).root
            if source.staged:
                endpoint = make_staged_endpoint(endpoint, source.staged)
            try:
                with self.track_transfer(name, directory, endpoint, source.url, is_cancelled) as transfer:
                    self._state.replication.transport.fetch_part(source.url, endpoint, name, directory, transfer)
                if not source.staged and not source.root:
                    keeper = self._state.replication.require_keeper()
                    fill_fetched_position_in(self._state, keeper, source.replica_name, name, directory)
                return directory, source
            except BaseException as error:
                self._state.store.drop_temporary(directory)
                if not isinstance(error, PandoError) or isinstance(error, CancelledError):
                    raise
                failure = error
        assert failure is not None, "fetch_from needs a source"
        raise failure
