"""Versions of rows: time, place and block of every INSERT into a ``last_writer_wins`` table.

A version is (commit time, origin, number of the block at the origin). Of the rows of a key the one with the largest
version stays, in whatever order they meet. All rows of an inserted block share one version: the part keeps it in its
file ``row_version`` and has no bytes for it in any row. A merge mixes versions and stores three columns::

    _commit_time   DateTime64(6, 'UTC')    when the block was committed, by the table's clock
    _origin        LowCardinality(String)  cluster, table and epoch (``coordination.links.positions``)
    _origin_block  UInt64                  the block's number at the origin

``*`` shows none of them. The version is not in the content hash of an inserted part, whose rows are named before the
number is known. The stored columns are in the content hash of a merged part, as all its columns are: so a replica that
merged other versions than the others is found out.

The file is one JSON object. ``commit_time`` is in microseconds since 1970. In a merged part (``mixed``) it is the
largest, from which a server learns what its next commit must exceed; ``conflicts`` are the rows that lost to a row
of another origin when the part was merged. ``tombstones`` is the commit time of the oldest tombstone, in a part
that may have some; 0 if none is left::

    {"version":1,"commit_time":1764230400000000,"origin":"6b1f….4294967298.1-00c0ffee00c0ffee","block":7}
    {"version":1,"commit_time":1764230400000000,"mixed":true,"conflicts":2,"tombstones":1764230100000000}

Rows without a version, of parts from elsewhere, are older than all others. The number of their block orders them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from parts.common.part_name import PartName
from parts.table.table_description import Column
from parts.types import parse_type

COMMIT_TIME = "_commit_time"
ORIGIN = "_origin"
ORIGIN_BLOCK = "_origin_block"
ROW_VERSION_NAMES = (COMMIT_TIME, ORIGIN, ORIGIN_BLOCK)
"""The columns of a version, in the order in which versions are compared."""
_TYPES = {
    COMMIT_TIME: parse_type("DateTime64(6, 'UTC')"),
    ORIGIN: parse_type("LowCardinality(String)"),
    ORIGIN_BLOCK: parse_type("UInt64"),
}
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RowVersion:
    """The version that all rows of a part share; of a ``is_mixed`` part the largest commit time.

    ``commit_time`` is in microseconds since 1970.
    """

    commit_time: int = 0
    origin: str = ""
    block: int | None = None
    is_mixed: bool = False
    conflicts: int = 0
    tombstones: int | None = field(default=None, compare=False)
    """Of a ``is_mixed`` part: the commit time of its oldest tombstone, 0 without any; ``None`` if it is not known."""

    def encode(self) -> bytes:
        """Returns the bytes of the file."""
        document: dict[str, object] = {"version": _FORMAT, "commit_time": self.commit_time}
        if self.is_mixed:
            document |= {"mixed": True} | ({"conflicts": self.conflicts} if self.conflicts else {})
            document |= {} if self.tombstones is None else {"tombstones": self.tombstones}
        else:
            document |= {"origin": self.origin, "block": self.block}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> RowVersion:
        """Parses the file. Raises ``ValueError``, ``KeyError``, ``TypeError`` for anything else."""
        document = json.loads(data)
        if document["version"] != _FORMAT:
            raise ValueError(f"version {document['version']}, this server reads {_FORMAT}")
        time = int(document["commit_time"])
        if document.get("mixed"):
            oldest = document.get("tombstones")
            return cls(
                time,
                is_mixed=True,
                conflicts=int(document.get("conflicts", 0)),
                tombstones=int(oldest) if oldest is not None else None,
            )
        return cls(time, str(document["origin"]), int(document["block"]))


NO_ROW_VERSION = RowVersion()
"""The rows of the part have no version."""


@dataclass(frozen=True)
class _OneValue:
    """The default of parts without the columns: one value for all rows. Implements ``ColumnDefault``."""

    value: int | str
    columns: Sequence[str] = ()

    def evaluate(self, _: pa.Table, rows: int) -> pa.ChunkedArray:
        if isinstance(self.value, str):
            indices = pa.array(np.zeros(rows, np.int32))
            return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, pa.array([self.value], pa.string()))])
        return pa.chunked_array([pa.array(np.full(rows, self.value, np.uint64))])


@dataclass(frozen=True)
class _OneTime(_OneValue):
    """The same for a time in microseconds."""

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        return super().evaluate(block, rows).cast(pa.int64()).cast(_TYPES[COMMIT_TIME].arrow)


def make_row_version_columns(part: PartName | None = None, version: RowVersion = NO_ROW_VERSION) -> tuple[Column, ...]:
    """Returns the columns. With ``part``, which does not store them, their defaults are its version."""
    if part is None:
        return tuple(Column(name, type_) for name, type_ in _TYPES.items())
    block = part.min_block if version.block is None else version.block
    defaults = (_OneTime(version.commit_time), _OneValue(version.origin), _OneValue(block))
    return tuple(Column(*pair, default=default) for pair, default in zip(_TYPES.items(), defaults, strict=True))


def find_row_version_column(name: str, part: PartName, version: RowVersion) -> Column:
    """Returns one of the columns, as a part without it has it."""
    return make_row_version_columns(part, version)[ROW_VERSION_NAMES.index(name)]


def combine_row_versions(versions: Iterable[RowVersion]) -> RowVersion:
    """Returns the version of a part that was merged from parts of these versions."""
    return RowVersion(max((version.commit_time for version in versions), default=0), is_mixed=True)
