"""Rows of arrays become rows of objects with the same values, or stay for the exact reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import UserError
from sql.formats.json.line_rewriting import rewrite_as_objects
from tests.sql.oracle import columns_of, read

FIELDS = [("a", None), ("b", None)]
texts = st.text('a,"\\[]{}: \n\té', max_size=6)
values = st.recursive(
    st.none() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), width=st.integers(1, 3), is_ascii=st.booleans())
@pytest.mark.long
def test_values_are_the_same(data: st.DataObject, width: int, is_ascii: bool) -> None:
    rows: list[list[Any]] = data.draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=1))
    lines = "\n".join(json.dumps(row, ensure_ascii=is_ascii) for row in rows).encode()
    objects = rewrite_as_objects(lines, [('k"' * (place + 1), None) for place in range(width)], is_compact=True)
    assert objects is not None
    assert [list(json.loads(line).values()) for line in objects.split(b"\n")] == rows


@pytest.mark.parametrize(
    "chunk",
    [
        b'[1,"x"],\n[2,"y"]', b"[1]\n", b"[1,2,3]", b'[1,"a""b]', b"[1,2]]\n", b"][", b'"x"[1,2]', b"x\n[1,2]",
        b'{"a":[1,2]}', b"[1,2}", b"[1\n2,3,4]", b"", b"\n", b'[1,"\\"]', b",", b'"a,",',
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left(chunk: bytes) -> None:
    assert rewrite_as_objects(chunk, FIELDS, is_compact=True) is None


def test_columns_of_the_data_that_are_none() -> None:
    columns = columns_of({"a": "UInt8", "b": "Array(String)"})
    data = b'["b", "?", "a"]\n[["x,]"], {"q": [1]}, 7]\n[[], null, null]\n'
    assert read(data, columns, "JSONCompactEachRowWithNames").to_pylist() == [
        {"b": ["x,]"], "a": 7},
        {"b": [], "a": None},
    ]


@pytest.mark.parametrize("padding", ["", "x" * 100])
@pytest.mark.parametrize("rows", ['["{}", "b", "c"]\n["d"]\n', '["a"]\n["{}", "b", "c"]\n'])
def test_values_do_not_go_to_another_row(rows: str, padding: str) -> None:
    body = rows.replace("{}", padding).encode()
    assert rewrite_as_objects(body, FIELDS, is_compact=True) is None
    with pytest.raises(UserError):
        read(body, columns_of({"a": "String", "b": "String"}), "JSONCompactEachRow")
