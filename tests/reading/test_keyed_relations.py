"""A table that can only be read by key, as system.zookeeper: which values its conditions allow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from parts.table.table_description import Column, TableSchema
from parts.types import StringType
from sql.relations import UNKNOWN_POSITIONS, StreamedRelation
from sql.run.query_engine import QueryEngine


class Nodes:
    """Every path has one child."""

    key_column = "path"
    positions = UNKNOWN_POSITIONS
    schema = TableSchema((Column("path", StringType()), Column("name", StringType())))

    def __init__(self) -> None:
        self.asked: Sequence[str] | None = None

    def read(self, columns: Sequence[str]) -> pa.Table:
        return self.read_keys(None, columns)

    def read_keys(self, values: Sequence[str] | None, columns: Sequence[str]) -> pa.Table:
        self.asked = values
        paths = list(values or ())
        return pa.table({"path": paths, "name": [f"child of {path}" for path in paths]}, self.schema.arrow).select(
            columns
        )

    def relation(self, database: str | None, table: str) -> Nodes:
        return self

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        raise AssertionError


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("path = '/a'", ["/a"]),
        ("'/a' = path AND name LIKE 'c%'", ["/a"]),
        ("path = '/x/' || currentDatabase() || '/y' AND name != ''", ["/x/shop/y"]),
        ("path IN ('/a', concat('/', 'b'))", ["/a", "/b"]),
        ("name != '' AND path IN ('/a')", ["/a"]),
        ("path = lower('/A') OR path = '/b'", None),
        ("path LIKE '/a%'", None),
        ("path = name", None),
    ],
)
def test_values(condition: str, asked: list[str] | None) -> None:
    nodes = Nodes()
    query = f"SELECT name FROM nodes WHERE {condition}"
    found = QueryEngine().select(query, catalog=nodes, constants={"currentDatabase": "shop"}).read_all()  # type: ignore[arg-type]
    assert nodes.asked == asked
    assert found["name"].to_pylist() == [f"child of {path}" for path in asked or ()]
