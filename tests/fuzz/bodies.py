"""Bodies of INSERTs that have been damaged: of every input format, of many types, mutated at a few places.

Nothing but rows or an error for the user may come of them. What is read is checked (every offset, every text) and
written out again, so that memory that was never given is noticed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import resource
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import BinaryIO

import brotli
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from engine.front.compressed_blocks import compress_block, open_compressed_blocks
from engine.front.http.request_body import open_decompressed
from parts.common.errors import PandoError
from parts.common.query_status import MemoryTracker, QueryStatus
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.converters.arrow_type_mapping import arrow_file_type, to_arrow_file
from sql.formats.registry import FORMATS, read_blocks, write_blocks
from sql.settings.session_settings import (
    make_settings,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from tests.fuzz.limits import bounded_memory

_LIMIT_SECONDS = 2.0
SECONDS = _LIMIT_SECONDS + 2.0
_LIMIT_BYTES = 512 << 20
_MEMORY_BYTES = 6 << 30
_ROWS = 40
_MOST_ROWS_OUT = 50_000

_TYPES = (
    "String", "LowCardinality(String)", "Enum8('a' = 1, 'bc' = 2)", "UInt8", "Int64", "Float64", "Bool",
    "Decimal(18, 3)", "Decimal(38, 5)", "FixedString(5)", "Date", "DateTime", "DateTime64(3)", "UUID", "IPv4", "IPv6",
    "Nullable(String)", "Nullable(Int32)", "LowCardinality(Nullable(String))", "Array(String)", "Array(Array(UInt16))",
    "Array(Nullable(Int8))", "Map(String, UInt32)", "Map(LowCardinality(String), Array(String))",
    "Tuple(UInt8, String)", "Tuple(a Int16, b Nullable(String))", "Array(Tuple(String, Float32))",
    "Array(LowCardinality(String))",
)  # fmt: skip
_INTERESTING = (0, 1, -1, 0x7F, 0x80, 0xFF, 0x7FFF, 2_000_000_000, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1)
_SHOULD_NOT_HAPPEN = frozenset({"STD_EXCEPTION", "LOGICAL_ERROR"})


def _arrow(kind: str, compression: str | None) -> Callable[[pa.RecordBatch], bytes]:
    def write(batch: pa.RecordBatch) -> bytes:
        sink = io.BytesIO()
        open_writer = pa.ipc.new_file if kind == "Arrow" else pa.ipc.new_stream
        with open_writer(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_batch(batch)
            writer.write_batch(batch.slice(3, 9))
        return sink.getvalue()

    return write


def _parquet(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink, compression="snappy", row_group_size=17)
    return sink.getvalue()


_FILES: dict[str, Sequence[Callable[[pa.RecordBatch], bytes]]] = {
    "Parquet": (_parquet,),
    "Arrow": (_arrow("Arrow", None), _arrow("Arrow", "zstd")),
    "ArrowStream": (_arrow("ArrowStream", None), _arrow("ArrowStream", "lz4")),
}
INPUT_FORMATS = tuple(sorted(name for name, entry in FORMATS.items() if entry.reader is not None))


@cache
def _values(type_name: str) -> pa.Array:
    """Some values of the type, made from text so that every type has them."""
    from tests.fuzz.body_values import texts_of  # a table of its own

    type_ = parse_type(type_name)
    texts = texts_of(type_)
    lines = "".join(texts[row % len(texts)] + "\n" for row in range(_ROWS))
    blocks = read_blocks("TabSeparated", io.BytesIO(lines.encode()), [Column("c", type_)])
    return pa.concat_tables(blocks).column("c").combine_chunks()


@cache
def _body(format_name: str, types: tuple[str, ...], variant: int) -> bytes:
    columns = [(f"c{index}", parse_type(text)) for index, text in enumerate(types)]
    arrays = [_values(text) for text in types]
    if format_name in _FILES:
        wires = [to_arrow_file(array, type_) for array, (_, type_) in zip(arrays, columns, strict=True)]
        if variant % 2:  # dictionaries as clients of pandas send them
            wires = [a.dictionary_encode() if pa.types.is_string(a.type) else a for a in wires]
        fields = [
            pa.field(name, array.type if variant % 2 else arrow_file_type(type_))
            for (name, type_), array in zip(columns, wires, strict=True)
        ]
        makers = _FILES[format_name]
        return makers[variant % len(makers)](pa.RecordBatch.from_arrays(wires, schema=pa.schema(fields)))
    batch = pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])
    writer = format_name if FORMATS[format_name].writer is not None and format_name != "RawBLOB" else "TabSeparated"
    return b"".join(write_blocks(writer, columns, iter([batch, batch.slice(2, 7)])))


def _mutated(data: bytes, chance: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        if not body:
            break
        place = chance.randrange(len(body))
        action = chance.randrange(8)
        if action == 0:
            body[place] = chance.randrange(256)
        elif action == 1:
            body[place] ^= 1 << chance.randrange(8)
        elif action in (2, 3):
            form = chance.choice(("<b", "<h", "<i", "<i", "<q"))
            number = chance.choice(_INTERESTING) + chance.choice((0, 0, 0, -1, 1))
            size = struct.calcsize(form)
            place -= place % size if action == 2 else 0
            piece = (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
            body[place : place + size] = piece[: len(body) - place]
        elif action == 4:
            del body[place : place + chance.choice((1, 4, 8, 64))]
        elif action == 5:
            body[place:place] = chance.randbytes(chance.choice((1, 4, 8)))
        elif action == 6:
            body[place:place] = body[place : place + chance.choice((1, 8, 64, 512))]
        else:
            del body[place:]
    return bytes(body)


_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "lz4": lambda data: bytes(pa.Codec("lz4").compress(data, asbytes=True)),
    "br": brotli.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "blocks": compress_block,
}


def _stream(seed: int, body: bytes) -> BinaryIO:
    """The body; of some seeds, compressed and damaged once more."""
    chance = random.Random(-seed - 1)
    if chance.random() > 0.1:
        return io.BytesIO(body)
    encoding = chance.choice(sorted(_ENCODINGS))
    stream = io.BytesIO(_mutated(_ENCODINGS[encoding](body), chance))
    return open_compressed_blocks(stream) if encoding == "blocks" else open_decompressed(stream, encoding)


_SETTINGS: dict[str, tuple[object, ...]] = {
    "format_csv_delimiter": (",", ";", "\t", "a"),
    "date_time_input_format": ("basic", "best_effort"),
    "input_format_null_as_default": (False, True),
    "input_format_skip_unknown_fields": (False, True),
    "input_format_csv_empty_as_default": (False, True),
    "input_format_defaults_for_omitted_fields": (False, True),
    "session_timezone": ("UTC", "Europe/Berlin", "America/St_Johns"),
}


def _settings(seed: int) -> Settings:
    """The defaults, and of some seeds others."""
    chance = random.Random(~seed)
    if chance.random() < 0.7:
        return DEFAULT_SETTINGS
    return make_settings({name: chance.choice(values) for name, values in _SETTINGS.items() if chance.random() < 0.5})


def _case(seed: int) -> tuple[str, list[Column], bytes]:
    chance = random.Random(seed)
    format_name = chance.choice(INPUT_FORMATS if seed % 2 else [*_FILES, *(f for f in _BINARY if f in FORMATS)])
    types = tuple(chance.choice(_TYPES) for _ in range(chance.choice((1, 1, 2, 4))))
    body = _mutated(_body(format_name, types, chance.randrange(4)), chance)
    wanted = types if chance.random() < 0.6 else tuple(chance.choice(_TYPES) for _ in types)
    return format_name, [Column(f"c{index}", parse_type(text)) for index, text in enumerate(wanted)], body


_BINARY = ("Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes")


def shown(seed: int) -> str:
    format_name, columns, body = _case(seed)
    return f"{format_name} {', '.join(f'{c.name} {c.type}' for c in columns)}\n{body!r}"


@contextmanager
def opened() -> Iterator[Callable[[int], None]]:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.RLIM_INFINITY))
    list(read_blocks("Values", io.BytesIO(b"(1 + 1)"), [Column("c", parse_type("UInt8"))]))  # DuckDB takes a while
    yield _run


def _run(seed: int) -> None:
    format_name, columns, body = _case(seed)
    status = QueryStatus(MemoryTracker("for query", _LIMIT_BYTES), _LIMIT_SECONDS, time.monotonic)
    settings = _settings(seed)
    rows = 0
    try:
        with bounded_memory(_LIMIT_BYTES):
            for block in read_blocks(format_name, _stream(seed, body), columns, status=status, settings=settings):
                _check(block, columns)
                rows += block.num_rows
                if rows > _MOST_ROWS_OUT:  # a body may truly be a long one
                    break
    except PandoError as error:
        if error.name in _SHOULD_NOT_HAPPEN:
            raise AssertionError(str(error)) from error
    assert status.memory.used_bytes == 0 or rows > _MOST_ROWS_OUT, status.memory.used_bytes


def _check(block: pa.Table, columns: Sequence[Column]) -> None:
    known = {column.name: column.type for column in columns}
    for name in block.column_names:
        if name in known:
            array = block.column(name)
            array.validate(full=True)
            assert array.type.equals(known[name].arrow), (name, array.type, known[name])
    names = [name for name in block.column_names if name in known]
    small = block.select(names).slice(0, 2000)
    if names:
        for batch in small.combine_chunks().to_batches():
            b"".join(write_blocks("TabSeparated", [(name, known[name]) for name in names], iter([batch])))
