"""The columns of a history's table: what may be there, and how ALTER may change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

VALUES = {
    "UInt8": "{n} % 200",
    "Int32": "toInt32({n}) * -3",
    "UInt64": "{n} * 1000003",
    "Float64": "{n} / 4",
    "String": "concat('s', toString({n} % 7))",
    "LowCardinality(String)": "toString({n} % 5)",
    "Nullable(UInt16)": "if({n} % 3 = 0, NULL, {n} % 999)",
    "Date": "toDate('2020-01-01') + {n} % 400",
    "Array(UInt16)": "range({n} % 4)",
    "Enum8('a' = 1, 'b' = 2)": "if({n} % 2 = 0, 'a', 'b')",
}
_OTHER_TYPES = {
    "UInt8": ("Int32", "UInt64", "String", "Nullable(UInt16)", "Float64"),
    "Int32": ("String", "Float64", "Nullable(Int64)"),
    "UInt64": ("String", "Float64", "Decimal(18, 3)"),
    "Decimal(18, 3)": ("String", "Float64"),
    "Float64": ("Int32", "UInt64", "Float32", "String"),
    "Float32": ("String", "Int32"),
    "DateTime('UTC')": ("Date", "String", "UInt64", "DateTime64(3, 'UTC')"),
    "DateTime64(3, 'UTC')": ("DateTime('UTC')", "String", "Date"),
    "Nullable(Int64)": ("Nullable(String)",),
    "Array(UInt16)": ("Array(String)", "Array(Nullable(Int64))"),
    "String": ("LowCardinality(String)", "Nullable(String)"),
    "LowCardinality(String)": ("String",),
    "Nullable(UInt16)": ("Nullable(UInt64)", "Nullable(String)"),
    "Date": ("String", "DateTime('UTC')", "UInt16", "Int32", "Date32"),
    "Date32": ("Date", "String"),
    "Enum8('a' = 1, 'b' = 2)": ("String", "Enum8('a' = 1, 'b' = 2, 'c' = 3)", "Int8", "Enum16('a' = 1, 'b' = 2)"),
}
"""What nothing is out of the range of: Pando refuses to convert that, where ClickHouse wraps around."""
_VERBS = {
    "add": 2, "drop": 1, "rename": 2, "modify": 1, "clear": 1, "comment": 1, "codec": 1, "place": 1, "default": 2,
}  # fmt: skip
_DEFAULTS = {
    "UInt8": ("7", "k % 5"),
    "UInt64": ("k * 10", "k + 1"),
    "String": ("'none'", "toString(k)"),
    "LowCardinality(String)": ("concat('d', toString(k % 3))",),
    "Nullable(UInt16)": ("k % 77",),
    "Date": ("toDate('1999-12-31')",),
    "Array(UInt16)": ("[1, 2]",),
}


@dataclass
class Column:
    """``kind`` is that of its default, if it has one."""

    type: str
    kind: str = ""
    has_ttl: bool = False

    @property
    def is_inserted(self) -> bool:
        return self.kind not in ("ALIAS", "MATERIALIZED")

    def value(self, number: str) -> str:
        return VALUES.get(self.type, _constant(self.type)).format(n=number)


def _constant(type_: str) -> str:
    if type_.startswith("Enum"):
        return "'a'"
    if type_.startswith("Array"):
        return "[]"
    return "toDate('2020-01-01')" if type_.startswith("Date") else "0"


@dataclass
class Columns:
    """Beside ``k``, the key, and ``d``, by which rows expire."""

    all: dict[str, Column] = field(default_factory=lambda: {"a": Column("UInt8"), "b": Column("String")})
    _names: int = 0

    def of(self, types: Iterable[str]) -> list[str]:
        """Those that can be given values of one of the types."""
        known = set(types)
        return [name for name, column in self.all.items() if column.type in known and column.kind in ("", "DEFAULT")]

    @property
    def asterisk(self) -> str:
        """With the columns that ``*`` leaves out."""
        return ", ".join(["*", *(f"`{name}`" for name, column in self.all.items() if not column.is_inserted)])

    def alteration(self, random: Random, held: set[str]) -> str:
        """One or two commands, or none; what an index is made of, ``held``, keeps its name and type."""
        done: list[str] = []
        touched: set[str] = set(held)
        for text, names, apply in [self._command(random) for _ in range(random.choice((1, 1, 1, 2)))]:
            if text and not touched & names:
                done.append(text)
                touched |= names
                apply()
        return ", ".join(done)

    def _command(self, random: Random) -> tuple[str, set[str], Callable[[], object]]:
        """Its text, the columns that it touches, and what to do when it is taken."""
        (verb,) = random.choices(list(_VERBS), list(_VERBS.values()))
        if verb == "add":
            return self._added(random)
        if not self.all:
            return _NONE
        name = random.choice(list(self.all))
        column = self.all[name]
        match verb:
            case "drop":
                return f"DROP COLUMN `{name}`", {name}, lambda: self.all.pop(name)
            case "rename":
                new = random.choice((self._new_name(), *"abc"))
                if new in self.all:
                    return _NONE
                return f"RENAME COLUMN `{name}` TO `{new}`", {name, new}, lambda: self._rename(name, new)
            case "clear" if not column.kind:
                return f"CLEAR COLUMN `{name}`", {name}, _nothing
            case "modify" if not column.kind and column.type in _OTHER_TYPES:
                other = random.choice(_OTHER_TYPES[column.type])
                return f"MODIFY COLUMN `{name}` {other}", {name}, lambda: setattr(column, "type", other)
            case "default" if column.kind in ("DEFAULT", "MATERIALIZED") and column.type in _DEFAULTS:
                default = random.choice((*_DEFAULTS[column.type], VALUES[column.type].format(n="k")))
                return f"MODIFY COLUMN `{name}` {column.kind} {default}", {name}, _nothing
            case "comment":
                return f"COMMENT COLUMN `{name}` 'about {random.randrange(9)}'", {name}, _nothing
            case "codec" if column.kind != "ALIAS":
                return f"MODIFY COLUMN `{name}` CODEC(ZSTD(1))", {name}, _nothing
            case "place":
                return f"MODIFY COLUMN `{name}` {column.type} FIRST", {name}, _nothing
        return _NONE

    def _added(self, random: Random) -> tuple[str, set[str], Callable[[], object]]:
        name = random.choice((self._new_name(), *"abc"))
        if name in self.all:
            return _NONE
        type_ = random.choice(list(VALUES))
        kind = random.choice(("", "", "DEFAULT", "DEFAULT", "MATERIALIZED", "ALIAS"))
        if type_ not in _DEFAULTS:
            kind = ""
        default = f" {kind} {random.choice(_DEFAULTS[type_])}" if kind else ""
        place = random.choice(("", " FIRST", " AFTER k"))
        text = f"ADD COLUMN `{name}` {type_}{default}{place}"
        return text, {name}, lambda: self.all.update({name: Column(type_, kind)})

    def _rename(self, name: str, new: str) -> None:
        self.all[new] = self.all.pop(name)

    def _new_name(self) -> str:
        self._names += 1
        return f"x{self._names}"


def _nothing() -> None:
    return


_NONE: tuple[str, set[str], Callable[[], object]] = ("", set(), _nothing)
