"""The class of the format ``pando`` that Spark calls.

Its import is light, because Spark imports it in every session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from spark_connector.python_source.error_lines import without_tracebacks

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from spark_connector.python_source.batch_writer import BatchWriter
    from spark_connector.python_source.stream_writer import PandoStreamWriter
    from spark_connector.shared.options import Options


@without_tracebacks
class PandoDataSource(DataSource):
    """``spark.read.format("pando")``, ``df.write.format("pando")``, ``CREATE TABLE … USING pando``."""

    defaults: ClassVar[Mapping[str, str]] = {}
    """Options of the session (``spark_connector.sessions``), where a use gives none."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "pando"

    def schema(self) -> StructType:
        """Returns the schema of the requested columns, or of ``SELECT *``."""
        from spark_connector.python_source.query_reader import describe_query_columns
        from spark_connector.python_source.scan_reader import describe_task_query
        from spark_connector.shared.options import are_from_catalog, refuse_secrets
        from spark_connector.shared.transport import Transport
        from spark_connector.shared.type_mapping import build_readable_schema, describe_table, store_options_in_schema

        options = self._options()
        if are_from_catalog(self.options):
            refuse_secrets(self.options)
        with Transport(options, is_first=True) as transport:
            if options.query:
                columns = describe_query_columns(transport)
            else:
                columns = describe_task_query(transport) if options.task_query else describe_table(transport)
            wanted = () if options.task_query else options.columns
            schema = build_readable_schema(columns, wanted, options.full_name, options.nanoseconds)
        return store_options_in_schema(schema, self.options) if are_from_catalog(self.options) else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch: of a query's result, or of a table."""
        from spark_connector.python_source.query_reader import QueryReader
        from spark_connector.python_source.scan_reader import ScanReader

        options = self._options(schema)
        return QueryReader(options, schema) if options.query else ScanReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Returns the reader of a stream."""
        from spark_connector.python_source.stream_reader import PandoStreamReader

        return PandoStreamReader(lambda: self._table_options(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Returns the writer of a batch; ``overwrite`` drops the old rows in the commit."""
        from spark_connector.python_source.batch_writer import BatchWriter

        return BatchWriter(self._table_options(schema), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PandoStreamWriter:  # noqa: N802
        """Returns the writer of a stream; ``overwrite`` is the output mode complete."""
        from spark_connector.python_source.stream_writer import PandoStreamWriter

        return PandoStreamWriter(self._table_options(schema), schema, overwrite)

    def _table_options(self, schema: StructType) -> Options:
        from parts.common.errors import UserError

        options = self._options(schema)
        for name in ("query", "task_query"):
            if getattr(options, name):
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Format pando: the option {name!r} is for batch reads; name a 'table' to write to it or to "
                    "stream it",
                )
        return options

    def _options(self, schema: StructType | None = None) -> Options:
        """Returns the options of this use, completed by the catalog's table and the session."""
        from spark_connector.shared.options import parse_options
        from spark_connector.shared.type_mapping import read_options_from_schema

        given = {**(read_options_from_schema(schema) if schema is not None else {}), **self.options}
        return parse_options(given, self.defaults)
