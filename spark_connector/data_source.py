"""The format ``pando``: what Spark calls. Its import is light, because Spark imports it in every session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_connector.options import Options
    from spark_connector.reader import PandoReader
    from spark_connector.stream import PandoStreamWriter
    from spark_connector.writer import PandoWriter

_PUSHING_PLANNER = "data_source_pushdown_filters.py"


class PandoDataSource(DataSource):
    """``spark.read.format("pando")``, ``df.write.format("pando")``, ``CREATE TABLE … USING pando``."""

    @classmethod
    def name(cls) -> str:
        return "pando"

    def schema(self) -> StructType:
        """Of the columns asked for, or of ``SELECT *``."""
        from spark_connector.options import is_of_catalog
        from spark_connector.schema import describe_table, readable_schema, with_options
        from spark_connector.transport import Transport

        options = self._options()
        with Transport(options) as transport:
            schema = readable_schema(describe_table(transport), options.columns, options.full_name)
        return with_options(schema, self.options) if is_of_catalog(self.options) else schema

    def reader(self, schema: StructType) -> PandoReader:
        """Spark refuses a reader with ``pushFilters`` while ``spark.sql.python.filterPushdown.enabled`` is off.

        The planner that calls this cannot see the session's configuration; but Spark plans with another program when
        pushing is on, and that is what is looked at.
        """
        from spark_connector.reader import PandoReader, PushingReader

        options = self._options(schema)
        is_pushing = sys._getframe(1).f_code.co_filename.endswith(_PUSHING_PLANNER)
        return (PushingReader if is_pushing and options.push_filters else PandoReader)(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> PandoWriter:
        """``overwrite`` empties the table first; that and the writing are not one atomic step."""
        from spark_connector.writer import PandoWriter

        return PandoWriter(self._options(schema), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> PandoStreamWriter:  # noqa: N802
        from parts.errors import UserError
        from spark_connector.stream import PandoStreamWriter

        if overwrite:
            raise UserError("NOT_IMPLEMENTED", "Format pando: streams are written with outputMode append only")
        return PandoStreamWriter(self._options(schema), schema)

    def _options(self, schema: StructType | None = None) -> Options:
        """Of this use, completed by those of the catalog's table."""
        from spark_connector.options import parse_options
        from spark_connector.schema import options_of

        return parse_options({**(options_of(schema) if schema is not None else {}), **self.options})
