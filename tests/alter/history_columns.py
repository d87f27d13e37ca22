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
_WIDER = {
    "UInt8": ("Int32", "UInt64", "String", "Nullable(UInt16)", "Float64"),
    "Int32": ("String", "Float64", "Nullable(Int64)"),
    "UInt64": ("String", "Float64"),
    "String": ("LowCardinality(String)", "Nullable(String)"),
    "LowCardinality(String)": ("String",),
    "Nullable(UInt16)": ("Nullable(UInt64)", "Nullable(String)"),
    "Date": ("String", "DateTime('UTC')"),
    "Enum8('a' = 1, 'b' = 2)": ("String", "Enum8('a' = 1, 'b' = 2, 'c' = 3)"),
}
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
        return VALUES.get(self.type, "'a'" if self.type.startswith("Enum") else "0").format(n=number)


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
        verb = random.choice(("add", "add", "drop", "rename", "rename", "modify", "clear", "comment", "codec", "place"))
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
            case "modify" if not column.kind and column.type in _WIDER:
                wider = random.choice(_WIDER[column.type])
                return f"MODIFY COLUMN `{name}` {wider}", {name}, lambda: setattr(column, "type", wider)
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
