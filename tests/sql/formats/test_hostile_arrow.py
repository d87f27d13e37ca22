"""Arrow data that lies about itself is refused before any of it is used."""

from __future__ import annotations

import io
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parts.common.errors import UserError
from parts.common.query_status import MemoryTracker, QueryStatus
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.columnar.ipc_messages import read_up_to
from sql.formats.registry import read_blocks

pytestmark = pytest.mark.long

ROWS = 100


def ipc(batch: pa.RecordBatch, kind: str = "ArrowStream", compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    opened = pa.ipc.new_stream if kind == "ArrowStream" else pa.ipc.new_file
    with opened(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def with_last_offset(kind: str, offset: int) -> bytes:
    """A column ``s`` of 100 strings of one byte, whose last offset is another."""
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32))
    strings = pa.Array.from_buffers(pa.string(), ROWS, [None, offsets, pa.py_buffer(b"x" * ROWS)])
    data = ipc(pa.record_batch({"s": strings}), kind)
    place = data.index(struct.pack("<iii", ROWS - 2, ROWS - 1, ROWS)) + 8
    return data[:place] + struct.pack("<i", offset) + data[place + 4 :]


def refused(body: bytes, type_: str, kind: str = "ArrowStream", status: QueryStatus | None = None) -> UserError:
    with pytest.raises(UserError) as caught:
        list(read_blocks(kind, io.BytesIO(body), [Column("s", parse_type(type_))], status=status))
    return caught.value


def test_a_number_of_nulls_that_is_not_true_is_refused() -> None:
    values = pa.array(["a", None] * (ROWS // 2))
    wrong = pa.Array.from_buffers(pa.string(), ROWS, values.buffers(), null_count=1)
    error = refused(ipc(pa.record_batch({"s": wrong})), "Nullable(String)")
    assert error.name == "INCORRECT_DATA"


CRASHING = """
import sys
from tests.sql.formats.test_hostile_arrow import refused, with_last_offset
for kind in ("ArrowStream", "Arrow"):
    for offset in (2_000_000_000, ROWS_MORE, -5):
        for type_ in ("LowCardinality(String)", "Enum8('x' = 1)", "String", "FixedString(3)", "UInt8"):
            error = refused(with_last_offset(kind, offset), type_, kind)
            assert error.name == "INCORRECT_DATA" and "column 's'" in error.message, error
print("alive")
""".replace("ROWS_MORE", str(ROWS + 4096))


def test_an_offset_behind_the_data_is_refused_and_not_followed() -> None:
    """In a process of its own: it used to end with SIGSEGV."""
    done = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, timeout=100)
    assert done.stdout == "alive\n", (done.returncode, done.stderr[-2000:])


@pytest.mark.parametrize("kind", ["ArrowStream", "Arrow"])
def test_dictionary_indices_and_nested_offsets_are_checked(kind: str) -> None:
    indices = pa.array([0, 1, 1, 0], pa.int32())
    good = pa.DictionaryArray.from_arrays(indices, pa.array(["one", "two"]))
    data = ipc(pa.record_batch({"s": good}), kind).replace(
        struct.pack("<4i", 0, 1, 1, 0), struct.pack("<4i", 0, 9, 1, 0)
    )
    assert refused(data, "LowCardinality(String)", kind).name == "INCORRECT_DATA"
    lists = pa.array([["a"], ["b", "c"], [], ["d"] * 4])
    data = ipc(pa.record_batch({"s": lists}), kind)
    data = data.replace(struct.pack("<5i", 0, 1, 3, 3, 7), struct.pack("<5i", 0, 1, 3, 3, 70_000))
    assert refused(data, "Array(String)", kind).name == "INCORRECT_DATA"


def test_lengths_in_the_metadata_do_not_become_memory() -> None:
    """A batch of 2**40 nulls, and a body said to have 2**50 bytes."""
    data = ipc(pa.record_batch({"s": pa.nulls(7654321)}))
    data = data.replace(struct.pack("<q", 7654321), struct.pack("<q", 1 << 40))
    assert "holds none" in refused(data, "String").message
    data = ipc(pa.record_batch({"s": ["x" * 1000]}))
    messages = list(pa.ipc.MessageReader.open_stream(data))
    size = struct.pack("<q", messages[1].body.size)
    assert refused(data.replace(size, struct.pack("<q", 1 << 50), 1), "String").name == "INCORRECT_DATA"


def test_a_type_that_cannot_be_is_refused_before_it_is_cast() -> None:
    """A scale of 0xFFFF03 ended the process in a cast."""
    data = ipc(pa.record_batch({"s": pa.array([1, 2], pa.decimal128(18, 3))}))
    broken = data.replace(struct.pack("<ii", 18, 3), struct.pack("<ii", 18, 0xFFFF03))
    assert broken != data
    assert "column 's'" in refused(broken, "UInt8").message


@pytest.mark.parametrize("kind", ["ArrowStream", "Arrow"])
def test_a_compressed_batch_that_would_become_huge_is_refused_first(kind: str) -> None:
    bomb = ipc(pa.record_batch({"s": ["x" * (1 << 20)] * 64}), kind, "zstd")
    assert len(bomb) < 20_000
    memory = MemoryTracker("for query", 10 << 20)
    error = refused(bomb, "String", kind, QueryStatus(memory))
    assert error.name == "MEMORY_LIMIT_EXCEEDED"
    assert memory.used_bytes == 0
    place = [at for at in range(0, len(bomb), 8) if bomb[at : at + 8] == struct.pack("<q", 64 << 20)][-1]
    claimed = bomb[:place] + struct.pack("<q", 1 << 45) + bomb[place + 8 :]
    assert refused(claimed, "String", kind).name == "MEMORY_LIMIT_EXCEEDED"


def test_a_dictionary_that_would_become_huge_is_resolved_in_pieces_or_refused() -> None:
    batch = pa.record_batch({"s": pa.DictionaryArray.from_arrays(np.zeros(3000, np.int32), ["y" * (1 << 20)])})
    blocks = read_blocks("ArrowStream", io.BytesIO(ipc(batch)), [Column("s", parse_type("String"))], max_block_bytes=1)
    assert max(block.num_rows for block in blocks) <= 1024


def test_runs_and_unions_are_no_column() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array(["r"]))
    assert refused(ipc(pa.record_batch({"s": runs})), "String").name == "TYPE_MISMATCH"


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_long_string_of_a_parquet_dictionary_is_not_repeated_beyond_reason(is_nested: bool) -> None:
    """Some KiB of Parquet say "this MiB, 3000 times"."""
    sink = io.BytesIO()
    values = pa.DictionaryArray.from_arrays(np.zeros(3000, np.int32), ["y" * (1 << 20)])
    column = pa.ListArray.from_arrays(np.arange(3001, dtype=np.int32), values) if is_nested else values
    pq.write_table(pa.table({"s": column}), sink, compression="zstd", dictionary_pagesize_limit=1 << 24)
    assert len(sink.getvalue()) < 20_000
    type_ = "Array(String)" if is_nested else "String"
    blocks = read_blocks("Parquet", io.BytesIO(sink.getvalue()), [Column("s", parse_type(type_))], max_block_bytes=1)
    first = next(blocks)
    assert 0 < first.num_rows <= 256
    assert first.nbytes <= 257 << 20


@pytest.mark.parametrize("arrived", [0, 5 << 20, 11 << 20, 13 << 20])
def test_a_long_body_is_read_as_far_as_it_goes_whatever_was_reserved(arrived: int) -> None:
    data = np.arange(arrived, dtype=np.uint32).astype(np.uint8).tobytes()
    size = 12 << 20
    stream = io.BufferedReader(io.BytesIO(data), 1 << 16)  # type: ignore[arg-type]
    assert read_up_to(stream, size, reserved_bytes=5 << 20) == data[:size]
    assert stream.read() == data[size:]


def test_a_stream_in_memory_and_one_that_arrives_are_the_same_rows() -> None:
    batch = pa.record_batch({"s": pa.array([str(number) * 40 for number in range(100_000)])})
    columns = [Column("s", parse_type("String"))]
    body = ipc(batch)
    arriving = io.BufferedReader(io.BytesIO(body), 1 << 16)  # type: ignore[arg-type]
    for stream in (io.BytesIO(body), arriving):
        assert pa.concat_tables(read_blocks("ArrowStream", stream, columns)).equals(pa.Table.from_batches([batch]))
