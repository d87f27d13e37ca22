"""A keeper that writes only while an activation holds. A replica makes its own changes through it.

Every write becomes a multi that also checks the activation (``is_active`` and the version of ``host``). So a server
whose replica was taken over or activated again changes nothing in ZooKeeper any more: it commits no part, and pulls,
assigns, drops or cleans up nothing. Reads pass unchanged.

An activation also ends with its session. A ZooKeeper that was put back to an older snapshot may hold ``is_active`` and
``host`` as they were, so the nodes alone do not prove that this session made them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordination.keeper.interface import (
    ANY_VERSION,
    Answer,
    Create,
    Delete,
    Keeper,
    KeeperError,
    MultiFailed,
    Op,
    Read,
    SetData,
    Stat,
    Watch,
)
from coordination.keeper.layered_keeper import LayeredKeeper
from coordination.nodes.replica_activation import Activation
from parts.common.errors import UnavailableError


class ActivationEnded(KeeperError):
    """The activation is over: this write had no effect, and no later one will have any."""

    def __init__(self, activation: Activation) -> None:
        UnavailableError.__init__(
            self,
            "TABLE_IS_READ_ONLY",
            f"Replica {activation.replica.name} lost its ZooKeeper session, or another server has taken it over; retry",
        )
        self.activation = activation
        self.path = activation.replica.is_active

    def __reduce__(self) -> tuple[object, ...]:
        return (ActivationEnded, (self.activation,))


class ActiveKeeper(LayeredKeeper):
    """A ``Keeper`` on top of another one that writes only while the activation holds.

    ``on_over`` is called whenever a write finds that the activation has ended.
    """

    def __init__(self, keeper: Keeper, activation: Activation, on_over: Callable[[], None] = lambda: None) -> None:
        super().__init__(keeper)
        self._activation = activation
        self._on_over = on_over
        self.sync = keeper.sync
        self.create_parents = keeper.create_parents
        self.delete_tree = keeper.delete_tree

    # --- reads -------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return self._keeper.get(path, watch)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return self._keeper.exists(path, watch)

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return self._keeper.children(path, watch)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return self._keeper.get_many(paths)

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        return self._keeper.exists_many(paths)

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return self._keeper.children_many(paths)

    def read_many(self, reads: Sequence[Read]) -> list[Answer]:
        return self._keeper.read_many(reads)

    # --- writes ------------------------------------------------------------------------------------------------

    def multi(self, ops: Sequence[Op]) -> list[str | Stat | None]:
        """Carries out the operations and the activation's checks. Raises ``ActivationEnded``.

        The checks stand last, so that an earlier operation of the caller fails first.
        """
        if not ops:
            return []
        if self._keeper.session_id not in (0, self._activation.session_id):
            self._on_over()
            raise ActivationEnded(self._activation)
        missing = [check for check in self._activation.checks if check not in ops]
        try:
            return self._keeper.multi([*ops, *missing])[: len(ops)]
        except MultiFailed as error:
            if error.op not in self._activation.checks:
                raise
            self._on_over()
            raise ActivationEnded(self._activation) from error

    def _single(self, op: Op) -> str | Stat | None:
        try:
            return self.multi([op])[0]
        except MultiFailed as error:
            raise error.cause from error

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        created = self._single(Create(path, data, ephemeral, sequential))
        assert isinstance(created, str)
        return created

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = self._single(SetData(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._single(Delete(path, version))
