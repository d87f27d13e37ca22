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

Tables whose commands come from one cluster (``commands_from``) keep less: where a row was inserted, and the zxid of its
log entry there (``RowVersion.position``). The part has it in its file ``row_place``, and no ``row_version``. A merge
stores two columns, if one of its sources knows them::

    _origin            LowCardinality(String)
    _origin_position   UInt64    0: inserted before the table kept these columns

    {"version":1,"origin":"6b1f….4294967298.1-00c0ffee00c0ffee","position":4294967310}
    {"version":1,"mixed":true}

The position 0 in the file of an inserted part means that it is not filled in yet: the part was written here before its
commit, whose zxid its listing in ZooKeeper has.
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
ORIGIN_POSITION = "_origin_position"
ROW_PLACE_NAMES = (ORIGIN, ORIGIN_POSITION)
"""The columns of a row's place: the origin, and the zxid there."""
HIDDEN_NAMES = (*ROW_VERSION_NAMES, ORIGIN_POSITION)
"""All of these columns."""
_TYPES = {
    COMMIT_TIME: parse_type("DateTime64(6, 'UTC')"),
    ORIGIN: parse_type("LowCardinality(String)"),
    ORIGIN_BLOCK: parse_type("UInt64"),
    ORIGIN_POSITION: parse_type("UInt64"),
}
_FORMAT = 1
NOT_FILLED_IN = 0
"""The position of rows whose place is not known yet, or older than the columns."""


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
    position: int | None = None
    """The zxid of the rows' log entry at their origin; ``None`` where the table keeps no places."""

    @property
    def has_places(self) -> bool:
        """Whether origin and position of each row are known, or will be."""
        return self.position is not None

    @property
    def lacks_position(self) -> bool:
        """Whether the part was written before the commit that gives its rows their position."""
        return self.position == NOT_FILLED_IN and not self.is_mixed

    def encode(self) -> bytes:
        """Returns the bytes of the file, ``row_place`` if it has a place."""
        if self.has_places:
            place: dict[str, object] = (
                {"mixed": True} if self.is_mixed else {"origin": self.origin, "position": self.position}
            )
            return json.dumps({"version": _FORMAT, **place}, separators=(",", ":")).encode()
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

    @classmethod
    def decode_place(cls, data: bytes) -> RowVersion:
        """Parses the file ``row_place``. Raises as :meth:`decode`."""
        document = json.loads(data)
        if document["version"] != _FORMAT:
            raise ValueError(f"version {document['version']}, this server reads {_FORMAT}")
        if document.get("mixed"):
            return cls(is_mixed=True, position=NOT_FILLED_IN)
        position = int(document["position"])
        if position < 0:
            raise ValueError(f"position {position}")
        return cls(origin=str(document["origin"]), position=position)


NO_ROW_VERSION = RowVersion()
"""The rows of the part have no version."""
MIXED_PLACES = RowVersion(is_mixed=True, position=NOT_FILLED_IN)
"""A merged part that stores the place of each row."""


def make_place(origin: str, position: int = NOT_FILLED_IN) -> RowVersion:
    """Returns the version of a part all of whose rows were inserted by one commit of ``origin``."""
    return RowVersion(origin=origin, position=position)


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
        return tuple(Column(name, _TYPES[name]) for name in ROW_VERSION_NAMES)
    return tuple(find_hidden_column(name, part, version) for name in ROW_VERSION_NAMES)


def make_row_place_columns() -> tuple[Column, ...]:
    """Returns the columns of places."""
    return tuple(Column(name, _TYPES[name]) for name in ROW_PLACE_NAMES)


def make_hidden_columns() -> tuple[Column, ...]:
    """Returns all columns of versions and places."""
    return tuple(Column(name, type_) for name, type_ in _TYPES.items())


def find_hidden_column(name: str, part: PartName, version: RowVersion) -> Column:
    """Returns a column of versions or places, as a part without it has it: one value for all rows."""
    if name == COMMIT_TIME:
        return Column(name, _TYPES[name], default=_OneTime(version.commit_time))
    block = part.min_block if version.block is None else version.block
    values: dict[str, str | int] = {
        ORIGIN: version.origin,
        ORIGIN_BLOCK: block,
        ORIGIN_POSITION: version.position or NOT_FILLED_IN,
    }
    return Column(name, _TYPES[name], default=_OneValue(values[name]))


def combine_row_versions(versions: Iterable[RowVersion]) -> RowVersion:
    """Returns the version of a part that was merged from parts of these versions."""
    return RowVersion(max((version.commit_time for version in versions), default=0), is_mixed=True)
