"""The row splitter of VALUES against a plain scanner."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.formats.converters.row_splitting import RowShapeError, split_rows

field = st.recursive(
    st.sampled_from(["1", "NULL", "''", "'a'", "'it''s'", r"'q\'x'", r"'\\'", "'(,)'", "now()", "'é;'"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
        | st.lists(inner, max_size=3).map(lambda items: "f(" + ",".join(items) + ")")
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.integers(1, 4), st.data(), st.sampled_from(["", ",", " , ", "\n"]), st.sampled_from(["", " ", "\n "]))
def test_fields_come_back(width: int, data: st.DataObject, between: str, pad: str) -> None:
    rows = data.draw(st.lists(st.lists(field, min_size=width, max_size=width), min_size=1, max_size=5))
    text = between.join("(" + ",".join(pad + item + pad for item in row) + ")" for row in rows)
    cut = data.draw(st.sampled_from(["", "(1", "('", ", (1, '(' , '"]))
    split = split_rows((text + cut).encode(), width)
    assert split.rows == len(rows)
    assert split.end == len(text.encode())
    columns = [[value.decode() for value in column.to_pylist()] for column in split.columns]
    assert [list(row) for row in zip(*columns, strict=True)] == rows


def test_wrong_shapes() -> None:
    with pytest.raises(RowShapeError) as caught:
        split_rows(b"(1,2), (3), (4,5)", 2)
    assert (caught.value.index, caught.value.position, caught.value.fields) == (1, 7, 1)
    with pytest.raises(RowShapeError) as caught:
        split_rows(b"(1,2) x (3,4)", 2)
    assert (caught.value.index, caught.value.fields) == (1, -1)


def test_a_semicolon_ends_the_data() -> None:
    assert split_rows(b"(1,2); (3,4)", 2).rows == 1
