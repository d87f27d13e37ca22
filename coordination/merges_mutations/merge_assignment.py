"""Log merges and mutations of parts, so that no replica assigns conflicting ones.

The multi is {create log/log-…; set log expecting the version that the predicate read}. Several are sent if ZooKeeper
would not take one. The version makes the assignments of all replicas one sequence. If anybody has assigned a merge or a
drop since the predicate was built, the multi fails, and a new predicate is built. Plain inserts do not change the
version.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper.interface import BadVersion, Create, Keeper, KeeperError, MultiFailed, Op, SetData, Stat
from coordination.keeper.request_limits import operation_bytes, require_log_entry_fits, split_into_multis
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry, mutated_part_name
from coordination.nodes.paths import TablePaths
from parts.common.errors import UnknownOutcomeError
from parts.common.part_name import PartName, make_merged_name


def make_merge_entry(
    sources: Sequence[PartName],
    replica_name: str,
    now: float,
    *,
    size_bytes: int = 0,
    rows: int = 0,
    merge_type: str = "Regular",
    deduplicate: bool = False,
    deduplicate_by: Sequence[str] = (),
    cleanup: bool = False,
    expire_at: int = 0,
    alter_version: int = 0,
    stable_time: int = 0,
) -> LogEntry:
    """Returns the entry that merges ``sources`` (in block order)."""
    return LogEntry(
        type=EntryType.MERGE_PARTS,
        new_part=make_merged_name(list(sources)),
        create_time=now,
        source_replica=replica_name,
        source_parts=tuple(sources),
        rows=rows,
        size_bytes=size_bytes,
        deduplicate=deduplicate,
        deduplicate_by=tuple(deduplicate_by),
        cleanup=cleanup,
        merge_type=merge_type,
        expire_at=expire_at,
        alter_version=alter_version,
        stable_time=stable_time,
    )


def make_mutate_part_entry(
    source: PartName,
    mutations: Sequence[MutationEntry],
    replica_name: str,
    now: float,
    *,
    metadata_version: int,
    size_bytes: int = 0,
    rows: int = 0,
) -> LogEntry:
    """Returns the entry that applies ``mutations`` (in the order of their numbers) to ``source``."""
    return LogEntry(
        type=EntryType.MUTATE_PART,
        new_part=mutated_part_name(source, mutations),
        create_time=now,
        source_replica=replica_name,
        source_parts=(source,),
        rows=rows,
        size_bytes=size_bytes,
        alter_version=metadata_version,
        mutations=tuple(mutation.mutation_id for mutation in mutations),
    )


def log_merges_and_mutations(
    keeper: Keeper, table: TablePaths, log_version: int, entries: Sequence[LogEntry], conditions: Sequence[Op] = ()
) -> bool:
    """Logs the merges and mutations: disjoint ones, chosen by one predicate of that ``log_version``.

    ``conditions`` are further checks of their multi.

    Returns ``False`` if somebody else assigned meanwhile: pull, build a new predicate, choose again. Raises
    ``UnknownOutcomeError`` if the answer was lost, or only some are logged. The logged ones are among the virtual parts
    after a pull. Raises 290 for a merge of too many parts.
    """
    logged = 0
    ops = [Create(table.log_prefix, entry.to_bytes(), sequential=True) for entry in entries]
    for op, entry in zip(ops, entries, strict=True):
        require_log_entry_fits(op, f"a merge of {len(entry.source_parts)} parts into {entry.new_part}")
    try:
        for packet in split_into_multis(ops, operation_bytes):
            stat = keeper.multi([*packet, *conditions, SetData(table.log, b"", log_version)])[-1]
            assert isinstance(stat, Stat)
            log_version = stat.version
            logged += len(packet)
        return True
    except (MultiFailed, KeeperError) as error:
        if logged:
            raise UnknownOutcomeError(
                "UNFINISHED", f"{logged} of {len(entries)} merges are in the log, the others are not: {error}"
            ) from error
        if not isinstance(error, MultiFailed):
            raise
        if isinstance(error.cause, BadVersion):
            return False
        raise error.cause from error
