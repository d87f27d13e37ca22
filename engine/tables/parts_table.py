"""A table whose rows are parts on this server's disk: what tables with and without replicas share."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from engine.tables.insert_sink import PartSink
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions
from engine.tables.stopped_actions import StoppableAction
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.part_fit import misfit
from parts.store.part_store import PartStore
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

_CLEANUP_SECONDS = 10.0
_IDLE_CLEANUP_SECONDS = 60.0
_DROP_WAIT_SECONDS = 3.0
_DROP_POLL_SECONDS = 0.02


def load_parts(store: PartStore, definition: TableDefinition) -> None:
    """Finds the table's parts on disk.

    ZooKeeper says which parts belong to a replica. Raises ``UserError`` 231 when more parts are broken than the
    settings allow.
    """
    report = store.load() if definition.is_replicated else store.load(lambda part: misfit(part, definition.description))
    settings = definition.settings
    for name, error in report.broken:
        logger.warning("table %s: part %s is broken, moved to detached: %s", definition.full_name, name, error)
    too_many = len(report.broken) > settings.max_suspicious_broken_parts
    if too_many or report.broken_bytes > settings.max_suspicious_broken_parts_bytes:
        raise UserError(
            "TOO_MANY_UNEXPECTED_DATA_PARTS",
            f"Suspiciously many broken parts in table {definition.full_name}: {len(report.broken)} of "
            f"{report.broken_bytes} bytes; max_suspicious_broken_parts = {settings.max_suspicious_broken_parts}, "
            f"max_suspicious_broken_parts_bytes = {settings.max_suspicious_broken_parts_bytes}",
        )


class PartsTable(OwnedTable):
    """A table with parts, and background work on them."""

    store: PartStore

    def __init__(self, definition: TableDefinition, services: TableServices) -> None:
        super().__init__(definition, services)
        self.store = PartStore(
            definition.data_path,
            definition.description,
            services.clock,
            services.new_uuid,
            monotonic=services.monotonic,
        )

    def set_definition(self, definition: TableDefinition) -> None:
        """Takes the definition that an ALTER made; the parts are shown under it from now on."""
        super().set_definition(definition)
        self.store.alter(definition.description)

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Loads the parts and starts background work."""
        self.load_parts()
        first_pause = min(self.description.settings.old_parts_lifetime, _CLEANUP_SECONDS)
        self.run_in_background(self.services.housekeeping, self.make_task("clean up", self.clean_up_step), first_pause)

    def load_parts(self) -> None:
        """Finds the table's parts on disk; see :func:`load_parts`."""
        load_parts(self.store, self.definition)

    @contextmanager
    def altering(self, new: TableDefinition) -> Iterator[None]:
        """Also checks that the rows of all parts convert to the new types."""
        checked: set[PartName] = set()
        while unchecked := self._unchecked(checked):
            for part in unchecked:
                part.under(new.description.schema).check_conversions()
                checked.add(part.name)
        with self.store.lock:  # nothing is committed meanwhile
            for part in self._unchecked(checked):
                part.under(new.description.schema).check_conversions()
            yield
            self.set_definition(new)

    def _unchecked(self, checked: Collection[PartName]) -> list[Part]:
        parts = (*self.store.active(), *self.store.preactive())
        return [part for part in parts if part.name not in checked]

    def drop(self) -> None:
        """Deletes the data; queries that read it get a moment to end.

        The table has been stopped. Raises ``OSError`` when something stays.
        """
        monotonic, never = self.services.monotonic, threading.Event()
        deadline = monotonic() + _DROP_WAIT_SECONDS
        while self.store.is_read() and monotonic() < deadline:
            self.services.wait(never, _DROP_POLL_SECONDS)
        super().drop()

    def clean_up_step(self) -> float:
        """Deletes outdated parts that are old enough and not read by anybody."""
        if StoppableAction.CLEANUP in self.stopped:
            return _CLEANUP_SECONDS
        self.delete_outdated(self.store.list_deletable())
        self._scan_records.clean_up(self.services.monotonic())
        if self.store.has_outdated():
            return _CLEANUP_SECONDS
        # What becomes outdated from now on stays for its lifetime.
        return max(_CLEANUP_SECONDS, min(self.description.settings.old_parts_lifetime, _IDLE_CLEANUP_SECONDS))

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        """Deletes outdated parts."""
        self.services.part_log.add_removals(self.definition, parts, self.services.clock())
        self.store.delete(parts)

    # -- reading and writing ------------------------------------------------------------------------------------

    @abstractmethod
    def begin_insert(self, options: InsertOptions) -> PartSink:
        """Starts one INSERT."""

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Returns the active parts, held until released."""
        return self.store.snapshot()

    def pin(self, names: Sequence[PartName]) -> PartsSnapshot:
        """Returns the named parts in whatever state, held until released."""
        return self.store.hold(names)
