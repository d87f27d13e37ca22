"""Records of a linked table's journal: znodes as they were pulled, and what they say.

A record's name is the path of its node below the table's root, so no two nodes of one multi share a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordination.keeper.interface import Stat
from coordination.links.stream.change_stream import DefinitionRecord, LogRecord, MutationRecord, Reading
from coordination.links.stream.definition_nodes import decode_definition
from coordination.log.log_entry import TTL_DROP, EntryType, LogEntry
from coordination.merges_mutations.mutation_nodes import parse_mutation_id
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.paths import log_entry_name
from engine.link_store.journal_segment import JournalRecord, RecordKind
from parts.common.part_name import PartName


def make_record(kind: RecordKind, name: str, data: bytes, stat: Stat) -> JournalRecord:
    """Returns the record of a node. ``name`` is its path below the table's root."""
    return JournalRecord(stat.created_zxid, kind, name, data, stat.created_ms)


def make_log_record(index: int, data: bytes, stat: Stat) -> JournalRecord:
    """Returns the record of a log entry."""
    return make_record(RecordKind.LOG_ENTRY, f"log/{log_entry_name(index)}", data, stat)


def get_named_part(record: JournalRecord) -> PartName:
    """Returns the part by which the node of a failed quorum or a loss is named."""
    return PartName.parse(record.name.rpartition("/")[2])


@dataclass(slots=True)
class ParsedRecords:
    """Some records by their kind."""

    log: list[LogRecord] = field(default_factory=list)
    mutations: list[MutationRecord] = field(default_factory=list)
    definitions: list[DefinitionRecord] = field(default_factory=list)
    failed: set[PartName] = field(default_factory=set)
    """Parts whose quorum failed."""
    lost: set[PartName] = field(default_factory=set)
    """Parts that were given up with their rows."""

    @property
    def partition_ids(self) -> set[str]:
        """The partitions of all blocks and commands."""
        mutated = {partition_id for record in self.mutations for partition_id in record.mutation.numbers}
        return mutated.union(*(record.entry.partition_ids for record in self.log))

    @property
    def reading(self) -> Reading:
        """The log, the mutations and the definitions."""
        return Reading(tuple(self.log), tuple(self.mutations), tuple(self.definitions))


def parse_records(records: Iterable[JournalRecord]) -> ParsedRecords:
    """Parses records. Drops of expired parts are left out: TTL is each cluster's own matter."""
    found = ParsedRecords()
    for record in records:
        name = record.name.rpartition("/")[2]
        if record.kind is RecordKind.LOG_ENTRY:
            entry = LogEntry.parse(record.content)
            if not _is_expiry(entry):
                found.log.append(LogRecord(record.zxid, record.commit_time_ms, entry))
        elif record.kind is RecordKind.MUTATION:
            mutation = MutationEntry.parse(parse_mutation_id(name), record.content)
            found.mutations.append(MutationRecord(record.zxid, record.commit_time_ms, mutation))
        elif record.kind is RecordKind.DEFINITION:
            definition = decode_definition(int(name), record.content)
            found.definitions.append(DefinitionRecord(record.zxid, record.commit_time_ms, definition))
        elif record.kind is RecordKind.FAILED_QUORUM:
            found.failed.add(get_named_part(record))
        else:
            found.lost.add(get_named_part(record))
    return found


def _is_expiry(entry: LogEntry) -> bool:
    """Tells whether the entry drops a part whose rows have expired: clients' DROP PART takes the gate's check."""
    return entry.type is EntryType.DROP_PART and entry.merge_type == TTL_DROP
