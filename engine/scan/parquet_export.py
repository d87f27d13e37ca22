"""Exports: writes the slots of a scan as Parquet files that Spark reads directly.

The files are written into ``<directory>.unfinished-<export>``. When all are there with ``_manifest.json``, which
describes them, one rename gives the directory its name. A directory with that name therefore holds the whole export.

If a client ends before that, its files stay; any server removes them once nothing was written there for a day. A client
that resumes later gets an error that its files are gone.

The types are those of a scan (``engine.scan.arrow_stream``). Spark reads no TIMESTAMP(NANOS), so by default a value
with nanoseconds becomes their number since 1970.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from engine.scan.sent_columns import get_arrow_type
from engine.server.user_files import TEMPORARY_FILE_PREFIX, UserFiles
from parts.common.errors import PandoError, UserError
from parts.read.part_reader import Part
from parts.table.table_description import Column
from sql.formats.columnar.arrow_and_parquet import OutputPieces
from sql.formats.converters.arrow_type_mapping import list_parts

logger = logging.getLogger(__name__)

ABANDONED_SECONDS = 24 * 3600.0
MANIFEST_FILE = "_manifest.json"
_UNFINISHED = ".unfinished-"
_ID = re.compile(r"[0-9a-f]{8,64}")
_FILE = re.compile(r"part-\d{5,}-[0-9a-f]+\.parquet")
_DIRECTORY = re.compile(rf".+{re.escape(_UNFINISHED)}[0-9a-f]{{8,64}}", re.DOTALL)
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20
"""The uncompressed bytes of a row group."""
_STILL_WRITING = b"\n"


def get_unfinished_path(directory: str, export: str) -> str:
    """Returns the directory in which an export's files are written. Raises 36 for an invalid id."""
    if not _ID.fullmatch(export):
        raise UserError("BAD_ARGUMENTS", f"'export' must be a number in hexadecimal digits, got {export!r}")
    return f"{directory.rstrip('/')}{_UNFINISHED}{export}"


def write_slot(
    batches: Iterator[pa.RecordBatch],
    columns: Sequence[Column],
    parts: Sequence[Part],
    files: UserFiles,
    path: str,
    unique: str,
    *,
    with_nanoseconds: bool,
) -> Iterator[bytes]:
    """Writes the rows of a slot into the file ``path``, and yields pieces of the HTTP response.

    The last piece is JSON: the file's ``rows``, ``bytes`` and ``hash`` (XXH3-128), and the ``parts`` of the rows. The
    pieces before are blank and show that the server is at work.
    """
    import pyarrow.parquet as pq

    yield _STILL_WRITING
    schema = pa.schema(
        [pa.field(c.name, _file_type(get_arrow_type(c.type), with_nanoseconds), c.type.is_nullable) for c in columns]
    )
    sink, rows = OutputPieces(), 0
    with files.create_file(path, unique) as file:
        try:
            writer = pq.ParquetWriter(
                sink, schema, compression="zstd", store_schema=False, store_decimal_as_integer=True,
                write_page_checksum=True,
            )  # fmt: skip
        except pa.ArrowNotImplementedError as error:
            raise UserError("BAD_ARGUMENTS", f"Parquet cannot hold an empty tuple: {error}") from None
        for group in _groups(batches, schema):
            if group is not None:
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                file.write(sink.take())
                rows += group.num_rows
            yield _STILL_WRITING
        writer.close()
        file.write(sink.take())
    names = [[str(part.name), part.content_hash] for part in parts]
    facts = {"name": path.rpartition("/")[2], "rows": rows, "bytes": file.bytes, "hash": file.hash, "parts": names}
    yield json.dumps(facts).encode()


def publish_export(files: UserFiles, directory: str, export: str, manifest: dict[str, object]) -> None:
    """Gives a finished export its directory.

    Raises 107 if a file of the manifest is missing, 641 if the directory exists.
    """
    sizes: dict[str, int] = {}
    listed = manifest.get("files")
    for item in listed if isinstance(listed, list) else ():
        name, size = (item.get("name"), item.get("bytes")) if isinstance(item, dict) else (None, None)
        if not isinstance(name, str) or not _FILE.fullmatch(name) or not isinstance(size, int):
            raise UserError("BAD_ARGUMENTS", f"'files' must hold names of this export with their bytes, got {item!r}")
        sizes[name] = size
    if not sizes:
        raise UserError("BAD_ARGUMENTS", "'manifest' must have the files of this export under 'files'")
    files.publish_directory(
        get_unfinished_path(directory, export), directory, sizes, MANIFEST_FILE, json.dumps(manifest, indent=1).encode()
    )


def remove_abandoned_exports(files: UserFiles, now: float) -> Iterator[str]:
    """Removes the directories of exports that nobody wrote to for a day; yields their paths."""
    for directory, changed, inside in files.directories(_DIRECTORY):
        if now - changed > ABANDONED_SECONDS and all(map(_is_of_export, inside)):
            with suppress(OSError, PandoError):  # another server was first
                files.remove(directory)
                logger.info("the unfinished export %s, of which nothing was written for a day, is removed", directory)
                yield directory


def _is_of_export(name: str) -> bool:
    return name == MANIFEST_FILE or name.startswith(TEMPORARY_FILE_PREFIX) or _FILE.fullmatch(name) is not None


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table | None]:
    """Yields row groups in the file's types, and ``None`` for each batch that does not complete one."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        arrays = [_file_array(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
        held.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        rows, size = rows + batch.num_rows, size + held[-1].nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
        else:
            yield None
    if rows:
        yield pa.Table.from_batches(held)


def _file_type(scanned: pa.DataType, with_nanoseconds: bool) -> pa.DataType:
    if pa.types.is_timestamp(scanned):
        if scanned.unit == "ns":
            return pa.timestamp("ns", "UTC") if with_nanoseconds else pa.int64()
        return pa.timestamp("us" if scanned.unit == "us" else "ms", "UTC")
    if pa.types.is_dictionary(scanned):
        return _file_type(scanned.value_type, with_nanoseconds)
    if pa.types.is_list(scanned):
        return pa.list_(_file_field(scanned.value_field, with_nanoseconds))
    if pa.types.is_map(scanned):
        return pa.map_(
            _file_type(scanned.key_type, with_nanoseconds), _file_field(scanned.item_field, with_nanoseconds)
        )
    if pa.types.is_struct(scanned):
        return pa.struct([_file_field(field, with_nanoseconds) for field in scanned])
    return scanned


def _file_field(field: pa.Field, with_nanoseconds: bool) -> pa.Field:
    return pa.field(field.name, _file_type(field.type, with_nanoseconds), field.nullable)


def _file_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source == target:
        return array
    if pa.types.is_dictionary(source):
        return _file_array(array.dictionary, target).take(array.indices)
    if pa.types.is_timestamp(source):
        if pa.types.is_integer(target):
            return pc.cast(array, target)
        return pc.cast(pc.cast(pc.cast(array, pa.timestamp(target.unit)), pa.int64()), target)
    if pa.types.is_struct(source):
        children = [_file_array(child, field.type) for child, field in zip(array.flatten(), target, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(target))
    offsets, mask, flat = list_parts(array)
    if pa.types.is_map(source):
        keys, values = _file_array(flat.field(0), target.key_type), _file_array(flat.field(1), target.item_type)
        return pa.MapArray.from_arrays(offsets, keys, values, type=target)
    return pa.ListArray.from_arrays(offsets, _file_array(flat, target.value_type), type=target, mask=mask)
