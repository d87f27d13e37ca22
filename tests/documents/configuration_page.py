"""``docs/configuration.md``: every key of a server's configuration."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.server import config
from engine.server.config import Config
from tests.documents.markdown import GENERATED, convert_docstring, plain, read_docstring, read_field_docs, table

_HEAD = ("key", "type", "default", "unit", "meaning")
_INTRODUCTION = """# Configuration

`pando server --config FILE` reads a file of YAML with the keys below; only `path` is needed. `pando cluster start`
writes such a file for each server. An unknown key, and a value of another type, is refused with one line that names
key and file.

"""
_UNITS = (
    (r"\bbytes a second\b|how fast parts are read", "bytes/s"),
    (r"\bmilliseconds\b", "ms"),
    (r"\bseconds\b|\bso long\b|\bfor so long\b", "s"),
    (r"\bbytes\b", "bytes"),
)
"""What the meaning of a number says, and its unit."""
_COMPUTED = {"display_name": "the machine's name", "users": "`default` without a password"}


def _name_of(hint: object) -> str:
    """A type as a person says it."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_name_of(each) for each in inner if each is not type(None))
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in inner if each != "")
    if origin is list:
        return f"list: {_name_of(inner[0])}"
    if origin is dict:
        return f"by name: {_name_of(inner[1])}"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return f"[{_title(hint)}](#{_title(hint).lower().replace(' ', '-')})"
    names = {bool: "true or false", int: "number", float: "number", str: "text", Path: "path"}
    return names.get(hint, "value") if isinstance(hint, type) else "value"


def _title(section: type[BaseModel]) -> str:
    words = re.findall(r"[A-Z][a-z]+", section.__name__.removesuffix("Config").replace("ZooKeeper", "Zookeeper"))
    return (
        " ".join([words[0], *(word.lower() for word in words[1:])])
        .replace("ookeeper", "ooKeeper")
        .replace("zoo", "Zoo")
    )


def _inner_sections(hint: object) -> Iterator[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    for each in typing.get_args(hint):
        yield from _inner_sections(each)


def _sections(section: type[BaseModel], found: list[type[BaseModel]]) -> list[type[BaseModel]]:
    for field in section.model_fields.values():
        for inner in _inner_sections(field.annotation):
            if inner not in found:
                found.append(inner)
                _sections(inner, found)
    return found


def _default(name: str, field: FieldInfo) -> str:
    if name in _COMPUTED and field.default_factory is not None:
        return _COMPUTED[name]
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "the section's"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value not in (None, "", [], {}) else "none"


def _unit(field: FieldInfo, meaning: str) -> str:
    if _name_of(field.annotation).split(" or ")[0] != "number":
        return ""
    return next((unit for words, unit in _UNITS if re.search(words, meaning, re.IGNORECASE)), "")


def _keys(section: type[BaseModel]) -> str:
    docs = read_field_docs(section)
    rows = []
    own = [name for name in section.model_fields if name in section.__annotations__]
    for name in dict.fromkeys([*own, *section.model_fields]):
        field = section.model_fields[name]
        meaning = docs[name]
        rows.append((f"`{name}`", _name_of(field.annotation), _default(name, field), _unit(field, meaning), meaning))
    return table(_HEAD, rows)


def text() -> str:
    example = read_docstring(str(Path(config.__file__).relative_to(Path(config.__file__).parents[2])))
    example = convert_docstring(example.split("\n\n", 1)[1].split("Every problem")[0])
    sections = [
        f"## {_title(each)}\n\n{plain(' '.join((each.__doc__ or '').split()))}\n\n{_keys(each)}"
        for each in _sections(Config, [])
    ]
    return "\n".join([GENERATED + _INTRODUCTION + example, f"## Keys\n\n{_keys(Config)}", *sections])
