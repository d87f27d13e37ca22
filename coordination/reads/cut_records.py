"""Records of the cut at which an execution of a scan reads the tables of a group.

A query of Spark begins to read its tables at different moments and on different replicas. The first read of any table
of the group writes for each of them ``scans/<name>-cut`` with the parts that it had at the cut; all others read that.

Invariant: the records of an execution are of one cut, since they are made in one request.

They are removed with the other records (:func:`coordination.reads.scan_records.delete_unused_scan_records`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import zstandard

from coordination.keeper.interface import Create, Keeper, KeeperConnectionLoss, MultiFailed, NodeExists, NoNode
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName

_ATTEMPTS = 5


def name_cut_record(scan: str) -> str:
    """Returns the name of the record beside that of a table's scan."""
    return f"{scan}-cut"


def record_cut(keeper: Keeper, scan: str, parts: Mapping[str, Sequence[PartName]]) -> bool:
    """Records the parts of all tables, by their root.

    Returns ``False`` if one of them has a record already.
    """
    tables = [TablePaths(root) for root in parts]
    creates = [Create(table.scan(name_cut_record(scan)), encode_cut(parts[table.root])) for table in tables]
    for attempt in range(_ATTEMPTS):
        try:
            keeper.multi(creates)
            return True
        except KeeperConnectionLoss:  # the next attempt finds out whether they were created
            if attempt == _ATTEMPTS - 1:
                raise
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists):
                return False
            if not isinstance(error.cause, NoNode):
                raise error.cause from error
            for table in tables:
                create_lists(keeper, table, table.scans)
    raise KeeperConnectionLoss(tables[0].scans)


def encode_cut(parts: Sequence[PartName]) -> bytes:
    """Encodes the names of a table's parts."""
    document = {"version": 1, "parts": [str(name) for name in parts]}
    return zstandard.compress(json.dumps(document, separators=(",", ":")).encode())


def decode_cut(record: bytes) -> list[PartName]:
    """Decodes the names of a table's parts. Raises ``CorruptionError``."""
    try:
        document = json.loads(zstandard.decompress(record))
        if document["version"] != 1:
            raise ValueError(f"version {document['version']}, this server understands 1")
        return [PartName.parse(name) for name in document["parts"]]
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise CorruptionError(f"Cannot read at which cut a scan began: {error}", name="CORRUPTED_DATA") from error
