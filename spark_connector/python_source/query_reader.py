"""Reads the result of a SELECT (option ``query``); the servers compute it.

One task runs the statement on one server, with ``readonly``. If a server cannot be reached, another is used, until the
first rows came. Every use of the frame runs the statement again, and so does a task that Spark repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    DataType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
)
from spark_connector.python_source.error_lines import without_tracebacks
from spark_connector.shared.options import Options, escape_string, quote_identifier
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import TableColumn, check_read_schema, describe_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_COMPRESSION = {"lz4": "lz4_frame", "zstd": "zstd", "none": "none"}


def describe_query_columns(transport: Transport) -> list[TableColumn]:
    """Returns the columns of the result.

    Raises 62 and other errors of the statement, 15 for a name that is there twice.
    """
    columns = describe_columns(transport, f"({transport.options.query}\n)")
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            "DUPLICATE_COLUMN",
            f"Format pando: the result of the option 'query' has several columns {twice!r}: give them aliases",
        )
    return columns


@without_tracebacks
class QueryReader(DataSourceReader):
    """Reads the query of one loaded data frame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Returns the one task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs the statement and yields its rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from parts.blocks.spark_batches import to_spark_batch

        schema = to_arrow_schema(self.schema, timezone="UTC")
        with Transport(self.options) as transport, ExitStack() as stack:
            statement = self._build_statement(transport)
            urls = self.options.urls
            batches = transport.try_servers(urls, lambda url: _QueryBatches(transport, url, statement, stack))
            for batch in batches:
                if batch.num_rows:
                    yield to_spark_batch(batch, schema, truncates=self.options.nanoseconds == "truncate")

    def _build_statement(self, transport: Transport) -> str:
        """Returns the SELECT of the schema's columns.

        Types that Arrow streams hold as bytes are cast to strings.
        """
        columns = {column.name: column.type for column in describe_query_columns(transport)}
        names = self.schema.fieldNames()
        for name in names:
            if name not in columns:
                raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"The result of the option 'query' has no column {name!r}")
        check_read_schema(self.schema, [(name, columns[name]) for name in names])
        items = []
        for name in names:
            type_ = columns[name]
            readable = _to_readable_type(type_)
            column = quote_identifier(name)
            items.append(
                column if readable == type_ else f"CAST({column}, '{escape_string(str(readable))}') AS {column}"
            )
        if items == [quote_identifier(name) for name in columns]:
            return self.options.query
        return f"SELECT {', '.join(items)} FROM ({self.options.query}\n)"


class _QueryBatches:
    """The result as it arrives.

    Opening it waits for the first batch, so that its errors lead to another server.
    """

    def __init__(self, transport: Transport, url: str, statement: str, stack: ExitStack) -> None:
        import pyarrow as pa

        options = transport.options
        settings = {
            "select_sequential_consistency": str(int(options.select_sequential_consistency)),
            "output_format_arrow_compression_method": _COMPRESSION[options.compression],
            **options.settings,
            "readonly": "2",
            "default_format": "ArrowStream",
        }
        self._answer = stack.enter_context(transport.select(url, statement, settings))
        self._failures = (pa.ArrowException, OSError)
        try:
            self._stream = stack.enter_context(pa.ipc.open_stream(pa.PythonFile(self._answer, mode="r")))
            self._first = next(self._stream, None)
        except self._failures as error:
            raise self._answer.failure(error) from None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._first is None:
            return
        yield self._first
        try:
            yield from self._stream
        except self._failures as error:
            raise self._answer.failure(error) from None


def _to_readable_type(type_: DataType) -> DataType:
    match type_:
        case UUIDType() | IPv4Type() | IPv6Type():
            return StringType()
        case NullableType(inner):
            return NullableType(_to_readable_type(inner))
        case LowCardinalityType(inner):
            return LowCardinalityType(_to_readable_type(inner))
        case ArrayType(inner):
            return ArrayType(_to_readable_type(inner))
        case MapType(key, value):
            return MapType(_to_readable_type(key), _to_readable_type(value))
        case TupleType(elements):
            return TupleType(tuple((name, _to_readable_type(inner)) for name, inner in elements))
    return type_
