"""Brings parts from other replicas to this disk."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from coordination.keeper import Keeper
from coordination.replica_activity import addresses, holders_of_part
from parts.errors import CancelledError, PandoError, UnavailableError
from parts.part_name import PartName

if TYPE_CHECKING:
    from engine.tables.replicated.table import ReplicatedTable


class Fetcher:
    def __init__(self, table: ReplicatedTable) -> None:
        self._table = table

    def holders(self, keeper: Keeper, name: PartName) -> list[str]:
        """Active replicas that list the part, in random order, so that load spreads."""
        names = holders_of_part(keeper, self._table.paths, str(name), excluding=self._table.replica.name)
        random.shuffle(names)
        return names

    def fetch(self, keeper: Keeper, name: PartName, is_cancelled: Callable[[], bool]) -> Path:
        """As :meth:`fetch_from`, from whoever has the part. Raises 234 (NO_REPLICA_HAS_PART) when nobody does."""
        holders = self.holders(keeper, name)
        if not holders:
            raise UnavailableError(
                "NO_REPLICA_HAS_PART", f"No active replica has part {name} of {self._table.definition.full_name}"
            )
        return self.fetch_from(keeper, name, holders, is_cancelled)

    def fetch_from(self, keeper: Keeper, name: PartName, holders: list[str], is_cancelled: Callable[[], bool]) -> Path:
        """A temporary directory with the part, from the first holder that gives it; else raises what the last said."""
        known = addresses(keeper, self._table.paths, holders)
        failure: PandoError | None = None
        for holder in holders:
            if holder not in known:
                continue
            directory = self._table.store.create_temporary("tmp_fetch_")
            endpoint = self._table.paths.replica(holder).root
            url = known[holder].interserver_url
            try:
                self._table.replication.transport.fetch_part(url, endpoint, name, directory, is_cancelled)
                return directory
            except BaseException as error:
                self._table.store.drop_temporary(directory)
                if not isinstance(error, PandoError) or isinstance(error, CancelledError):
                    raise
                failure = error
        raise failure or UnavailableError("NO_REPLICA_HAS_PART", f"No replica with part {name} has a known address")
