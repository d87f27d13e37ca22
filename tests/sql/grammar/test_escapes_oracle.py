"""What a backslash means before each character: in literals, data and query parameters, compared with ClickHouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import UserError
from sql.compile.passes.query_parameters import parameter_value
from sql.grammar.syntax_tree import Literal, Parameter
from sql.grammar.tokens import quote_string, unquote_string
from tests.sql.oracle import Oracle, columns_of, read

CHARACTERS = [chr(code) for code in range(128) if chr(code) != "x"]  # \x is followed by digits


def test_literals(oracle: Oracle) -> None:
    literals = [rf"'a\{char}b'" for char in CHARACTERS[1:]]
    hexes = oracle.query(f"SELECT {', '.join(f'hex({literal})' for literal in literals)}").decode().split()
    assert [unquote_string(literal).encode().hex().upper() for literal in literals] == hexes


@pytest.mark.parametrize(("format", "row"), [("TSV", "a\\{}b\tx\n"), ("Values", "('a\\{}b', 'x')\n")])
def test_data(oracle: Oracle, tmp_path: Path, format: str, row: str) -> None:
    chars = [char for char in CHARACTERS if not (format == "TSV" and char == "\r")]  # \r may end a row
    data = "".join(map(row.format, chars)).encode()
    path = tmp_path / "data"
    path.write_bytes(data)
    found = read(data, columns_of({"a": "String", "b": "String"}), format)
    theirs = oracle.query(f"SELECT hex(a) FROM file('{path}', {format}, 'a String, b String')").decode().split()
    assert [text.encode().hex().upper() for text in found.column("a").to_pylist()] == theirs


@pytest.mark.parametrize(
    "text",
    ["it\\'s\\\n", "\\\n", "a\\\nb", "a\\\tb", "a\\\\\\\nb", "a\nb", "a\tb", "a\\\\\nb", "a\\\\\tb", "a\\", "a\\=\\zb"],
)
def test_parameters(oracle: Oracle, text: str) -> None:
    assert _parameter(text) == _parameter_there(oracle, text)


def _parameter(text: str) -> str:
    try:
        value = parameter_value(Parameter("x", "String"), {"x": text})
    except UserError as error:
        return str(error.code)
    assert isinstance(value, Literal)
    return str(value.value).encode().hex().upper()


def _parameter_there(oracle: Oracle, text: str) -> str:
    try:
        return oracle.query(f"SET param_x = {quote_string(text)}; SELECT hex({{x:String}})").decode().strip()
    except RuntimeError as error:
        return str(error).split()[1].rstrip(".")
