"""Histories of one table, made from a seed: rows come, change and go, columns too, parts merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

_VALUES = {
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
class History:
    """``statements()`` are to be run one after another; all of them are right."""

    seed: int
    table: str
    settings: str = ""
    has_mutations: bool = False
    _columns: dict[str, tuple[str, str]] = field(default_factory=dict)
    _names: int = 0
    _rows: int = 0
    _is_partitioned: bool = False

    def statements(self, steps: int) -> Iterator[str]:
        random = Random(self.seed)
        self._columns = {"a": ("UInt8", ""), "b": ("String", "")}
        partition = random.choice(("", "PARTITION BY k % 2 "))
        self._is_partitioned = bool(partition)
        yield (
            f"CREATE TABLE {self.table} (k UInt32, a UInt8, b String) ENGINE = MergeTree {partition}ORDER BY k"
            f"{self.settings}"
        )
        for _ in range(steps):
            yield self._step(random)

    def _step(self, random: Random) -> str:
        kinds = ("insert", "insert", "insert", "merge", "alter", "alter", "alter", "alter")
        kind = random.choice((*kinds, "mutate", "mutate", "mutate", "mutate") if self.has_mutations else kinds)
        if kind == "mutate":
            return self._mutation(random)
        if kind == "insert":
            return self._insert(random)
        if kind == "merge":
            return f"OPTIMIZE TABLE {self.table} FINAL"
        commands = [self._alteration(random) for _ in range(random.choice((1, 1, 1, 2)))]
        done: list[str] = []
        touched: set[str] = set()
        for text, names in commands:
            if text and not touched & names:
                done.append(text)
                touched |= names
                self._apply(text, names)
        return f"ALTER TABLE {self.table} {', '.join(done)}" if done else self._insert(random)

    def _insert(self, random: Random) -> str:
        names = [name for name, (_, kind) in self._columns.items() if kind not in ("ALIAS", "MATERIALIZED")]
        given = [name for name in names if random.random() < 0.7]
        count, first = random.choice((1, 3, 50)), self._rows
        self._rows += count
        values = [_value(self._columns[name][0]).format(n=f"(number + {first})") for name in given]
        columns = ", ".join(["k", *(f"`{name}`" for name in given)])
        picked = ", ".join([f"number + {first}", *values])
        return f"INSERT INTO {self.table} ({columns}) SELECT {picked} FROM numbers({count})"

    def _mutation(self, random: Random) -> str:
        where = random.choice(("", "", " IN PARTITION 1")) if self._is_partitioned else ""
        if random.random() < 0.25:
            return f"DELETE FROM {self.table}{where} WHERE {self._condition(random)}"
        commands = [self._mutation_command(random, where) for _ in range(random.choice((1, 1, 2)))]
        return f"ALTER TABLE {self.table} {', '.join(commands)}"

    def _mutation_command(self, random: Random, where: str) -> str:
        free = [name for name, (type_, kind) in self._columns.items() if type_ in _VALUES and kind in ("", "DEFAULT")]
        computed = [name for name, (_, kind) in self._columns.items() if kind in ("DEFAULT", "MATERIALIZED")]
        match random.choice(("update", "update", "update", "delete", "materialize", "clear", "apply")):
            case "update" if free:
                chosen = random.sample(free, min(len(free), random.choice((1, 1, 2))))
                shift = random.randrange(9)
                values = [_VALUES[self._columns[name][0]].format(n=f"(k + {shift})") for name in chosen]
                pairs = ", ".join(f"`{name}` = {value}" for name, value in zip(chosen, values, strict=True))
                return f"UPDATE {pairs}{where} WHERE {self._condition(random)}"
            case "materialize" if computed:
                return f"MATERIALIZE COLUMN `{random.choice(computed)}`{where}"
            case "clear" if where and free:
                return f"CLEAR COLUMN `{random.choice(free)}`{where}"
            case "apply":
                return f"APPLY DELETED MASK{where}"
        return f"DELETE{where} WHERE {self._condition(random)}"

    def _condition(self, random: Random) -> str:
        number = random.randrange(max(self._rows, 1))
        numbers = [
            name for name, (type_, kind) in self._columns.items() if type_ in ("UInt8", "Int32") and kind != "ALIAS"
        ]
        options = [
            f"k = {number}",
            f"k >= {number} AND k % 2 = 0",
            f"k % {random.randrange(2, 9)} = 1",
            f"k IN (SELECT k FROM {self.table} WHERE k % 5 = {random.randrange(5)})",
            f"k < (SELECT max(number) FROM numbers({number + 1}))",
            *(f"`{name}` % 4 = {random.randrange(4)}" for name in numbers),
        ]
        return random.choice(options)

    def _alteration(self, random: Random) -> tuple[str, set[str]]:
        verb = random.choice(("add", "add", "drop", "rename", "rename", "modify", "clear", "comment", "codec", "place"))
        if verb == "add":
            return self._added(random)
        if not self._columns:
            return "", set()
        name = random.choice(list(self._columns))
        type_, kind = self._columns[name]
        match verb:
            case "drop":
                return f"DROP COLUMN `{name}`", {name}
            case "rename":
                new = random.choice((self._new_name(), *"abc"))
                return (f"RENAME COLUMN `{name}` TO `{new}`", {name, new}) if new not in self._columns else ("", set())
            case "clear" if not kind:
                return f"CLEAR COLUMN `{name}`", {name}
            case "modify" if not kind and type_ in _WIDER:
                return f"MODIFY COLUMN `{name}` {random.choice(_WIDER[type_])}", {name}
            case "comment":
                return f"COMMENT COLUMN `{name}` 'about {random.randrange(9)}'", {name}
            case "codec" if kind != "ALIAS":
                return f"MODIFY COLUMN `{name}` CODEC(ZSTD(1))", {name}
            case "place":
                return f"MODIFY COLUMN `{name}` {type_} FIRST", {name}
        return "", set()

    def _added(self, random: Random) -> tuple[str, set[str]]:
        name = random.choice((self._new_name(), *"abc"))
        if name in self._columns:
            return "", set()
        type_ = random.choice(list(_VALUES))
        kind = random.choice(("", "", "DEFAULT", "DEFAULT", "MATERIALIZED", "ALIAS"))
        if kind and type_ not in _DEFAULTS:
            kind = ""
        default = f" {kind} {random.choice(_DEFAULTS[type_])}" if kind else ""
        place = random.choice(("", " FIRST", " AFTER k"))
        return f"ADD COLUMN `{name}` {type_}{default}{place}", {name}

    def _new_name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _apply(self, text: str, names: set[str]) -> None:
        words = text.split("`")
        name = words[1]
        if text.startswith("ADD"):
            rest = words[2].strip()
            type_ = max((known for known in _VALUES if rest.startswith(known)), key=len)
            kind = next((word for word in ("DEFAULT", "MATERIALIZED", "ALIAS") if f" {word} " in rest), "")
            self._columns[name] = (type_, kind)
        elif text.startswith("DROP"):
            del self._columns[name]
        elif text.startswith("RENAME"):
            self._columns[words[3]] = self._columns.pop(name)
        elif text.startswith("MODIFY") and "CODEC" not in text and not text.endswith("FIRST"):
            self._columns[name] = (words[2].strip(), self._columns[name][1])


def _value(type_: str) -> str:
    return _VALUES.get(type_, "'a'" if type_.startswith("Enum") else "0")
