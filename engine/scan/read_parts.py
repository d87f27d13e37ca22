"""The parts that an execution of a scan reads, for a commit that must replace exactly these."""

from __future__ import annotations

from coordination.transactions.read_state import ReadState
from engine.scan.leases import ScanOpening
from engine.scan.scan_record import decode_record
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError


def find_read_state(table: OwnedTable, scan: str, partition_ids: frozenset[str] | None) -> ReadState:
    """Returns what the scan of this name reads of the partitions (``None``: of all).

    Raises 650 (SERIALIZATION_ERROR) if that is not known: it never began, or too long ago.
    """
    digest = ScanOpening(scan).digest
    record = table.scan_records(is_alone=True).find(digest) or table.scan_records(is_alone=False).find(digest)
    if record is None:
        raise UserError(
            "SERIALIZATION_ERROR",
            f"What scan {scan!r} of {table.definition.full_name} read is not known: it began too long ago, or never. "
            "Nothing was committed; run the statement again",
        )
    found = decode_record(record)
    return ReadState.of(found.parts, found.metadata_version, partition_ids, is_settled=found.is_settled)
