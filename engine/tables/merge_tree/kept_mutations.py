"""The mutations of a table of one server in files, and the parts that each has still to change.

Each has a file ``mutation_<number>.txt`` beside the parts: the time of its creation in the first line, then its text.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.tables.capabilities.table_mutations import MutationFailure
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from parts.format.durable_files import replace_file_durably
from parts.store.part_states import Snapshot
from sql.mutations.mutation import Mutation
from sql.relations import PartsSnapshot

_PREFIX, _SUFFIX = "mutation_", ".txt"
_TIME = "create time: "


@dataclass(frozen=True)
class TableSnapshot:
    """A table with the parts that it had at some moment.

    Implements ``engine.tables.merges.mutation_execution.ReadableTable``.
    """

    definition: TableDefinition
    held: PartsSnapshot

    def snapshot(self) -> PartsSnapshot:
        """Returns the held parts."""
        return Snapshot(self.held.parts, lambda _: None)


@dataclass(eq=False)
class StoredMutation:
    """A mutation with its progress and its last failure."""

    number: int
    mutation: Mutation
    create_time: float
    finish_time: float = 0.0
    failures: int = 0
    failure: MutationFailure = field(default_factory=MutationFailure)
    retry_at: float = 0.0
    """The monotonic time of the next attempt."""
    is_killed: bool = False
    reads: Mapping[tuple[str, str], TableSnapshot] | None = None
    """The tables that its subqueries read; ``None`` if their parts are not held yet."""
    changed: threading.Event = field(default_factory=threading.Event)
    """Set when the mutation is done, killed, or delayed by a failure."""

    def write(self, directory: Path) -> None:
        """Writes the file. It is durable when this returns, and absent after an error."""
        path = directory / self.id
        draft = path.with_name(f"tmp_{self.id}")
        try:
            replace_file_durably(path, f"{_TIME}{self.create_time}\n{self.mutation.encode()}".encode(), draft)
        except BaseException:
            for file in (path, draft):
                file.unlink(missing_ok=True)
            raise

    def release(self) -> None:
        """Releases the tables that its subqueries read."""
        for table in (self.reads or {}).values():
            table.held.release()
        self.reads = None

    @property
    def id(self) -> str:
        """The name of its file."""
        return f"{_PREFIX}{self.number}{_SUFFIX}"

    def is_for(self, name: PartName) -> bool:
        """Tells whether the part is still to be changed by this mutation."""
        return name.data_version < self.number and self._names(name.partition_id)

    def is_done(self, first_pending: int, least: Mapping[str, int]) -> bool:
        """Tells whether no part, present or future, is left to change.

        ``first_pending`` is smaller than the numbers of all blocks still to be committed. ``least`` is the smallest
        data version in each partition, read after it.
        """
        if self.finish_time:
            return True
        is_through = all(version >= self.number for partition, version in least.items() if self._names(partition))
        return first_pending > self.number and is_through and not self.is_killed

    def _names(self, partition_id: str) -> bool:
        partitions = self.mutation.partition_ids
        return partitions is None or partition_id in partitions


def select_pending(kept: Sequence[StoredMutation], name: PartName) -> list[StoredMutation]:
    """Returns the mutations that a part still needs, from all in the order of their numbers."""
    later = bisect_right(kept, name.data_version, key=lambda each: each.number)
    return [each for each in kept[later:] if each.is_for(name)]


def load_mutations(directory: Path) -> list[StoredMutation]:
    """Reads the mutations in the order of their numbers; removes drafts that a kill left."""
    for draft in directory.glob(f"tmp_{_PREFIX}*{_SUFFIX}"):
        draft.unlink()
    return sorted(map(_read, directory.glob(f"{_PREFIX}*{_SUFFIX}")), key=lambda kept: kept.number)


def list_unfinished_mutations(directory: Path, parts: Iterable[PartName]) -> list[str]:
    """Returns the ids of mutations that active parts of the table in ``directory`` still need."""
    kept = map(_read, sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}")))
    active = list(parts)
    return [each.id for each in kept if any(map(each.is_for, active))]


def _read(path: Path) -> StoredMutation:
    """Reads one file. Raises ``UserError`` 117 (INCORRECT_DATA) if it is damaged."""
    try:
        time, _, rest = path.read_text(encoding="utf-8").partition("\n")
        number = int(path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
        return StoredMutation(number, Mutation.decode(rest), float(time.removeprefix(_TIME)))
    except (PandoError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            "INCORRECT_DATA",
            f"The mutation {path} cannot be read ({error}): put a good copy there, or move it away, and the rows that "
            "it has not reached yet stay as they are",
        ) from error
