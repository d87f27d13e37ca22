"""Rows that are arrays, where one has more values and another fewer than there are columns."""

from __future__ import annotations

import pytest

from parts.errors import UserError
from sql.formats.json_arrays import as_objects
from tests.sql_statements.oracle import columns_of, read


@pytest.mark.parametrize("padding", ["", "x" * 100])
@pytest.mark.parametrize("rows", ['["{}", "b", "c"]\n["d"]\n', '["a"]\n["{}", "b", "c"]\n'])
def test_values_do_not_go_to_another_row(rows: str, padding: str) -> None:
    body = rows.replace("{}", padding).encode()
    assert as_objects(body, ["a", "b"]) is None
    with pytest.raises(UserError):
        read(body, columns_of({"a": "String", "b": "String"}), "JSONCompactEachRow")
