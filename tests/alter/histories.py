"""Histories of one table, made from a seed: everything that changes a table after it was created, in any order.

Nothing merges by itself, so that rows expire when a statement says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.alter.history_columns import VALUES, Columns

_STILL = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_number_of_merges_with_ttl_in_pool = 0, "
    "number_of_free_entries_in_pool_to_execute_mutation = 0, remove_empty_parts = 0"
)
_FORMATS = ("", ", min_bytes_for_wide_part = 1", ", min_bytes_for_wide_part = 1, index_granularity = 8")
_KINDS = {"insert": 8, "merge": 3, "alter": 7, "mutate": 7, "partition": 4, "expire": 3, "index": 4, "reattach": 1}
_TTLS = (
    "d + INTERVAL 1 DAY",
    "d + INTERVAL 1 DAY DELETE WHERE k % 3 = 0",
    "d + INTERVAL 1 MONTH WHERE k % 2 = 1, d + INTERVAL 9 YEAR",
    "d + INTERVAL 1 DAY RECOMPRESS CODEC(ZSTD(1))",
)
_INDEXES = ("minmax", "set(10)", "set(0)", "bloom_filter", "bloom_filter(0.1)")
_INDEXED = ("UInt8", "Int32", "UInt64", "String", "LowCardinality(String)", "Date")


@dataclass(frozen=True)
class Step:
    """What is done, and what is then asked. The last action may be refused, if it is refused everywhere."""

    actions: list[str]
    questions: list[str]


class History:
    """What is refused changes nothing here, so that the statements of a history do not depend on who runs it."""

    def __init__(self, seed: int, table: str) -> None:
        self.table = table
        self._random = random = Random(seed)
        self._columns = Columns()
        self._rows = 0
        self._partitions = random.choice((0, 2, 2, 3))
        self._settings = f" SETTINGS {_STILL}{random.choice(_FORMATS)}"
        self._other = f"{table}_other"
        self._has_other = False
        self._detached: dict[str, bool] = {}
        """Partition → whether it may be attached."""
        self._has_ttl = False
        self._indexes: dict[str, str] = {}
        """By name: the column."""

    def steps(self, count: int) -> Iterator[Step]:
        partition = f"PARTITION BY k % {self._partitions} " if self._partitions else ""
        columns = "k UInt32, d Date, a UInt8, b String"
        create = f"CREATE TABLE {self.table} ({columns}) ENGINE = MergeTree {partition}ORDER BY k{self._settings}"
        yield Step([create], [])
        for _ in range(count):
            dropped = self._drop_other()
            (kind,) = self._random.choices(list(_KINDS), list(_KINDS.values()))
            yield Step([*dropped, *getattr(self, f"_{kind}")()], self._look())
        yield Step(self._reattach(), self._look())
        yield Step([*self._drop_other(), f"DROP TABLE {self.table} SYNC"], [])

    def _look(self) -> list[str]:
        random = self._random
        asked = random.sample(sorted(self._indexes), min(len(self._indexes), 1))
        return [
            f"SELECT {self._columns.asterisk} FROM {self.table} ORDER BY ALL",
            f"SHOW CREATE TABLE {self.table}",
            *([f"SELECT * FROM {self._other} ORDER BY ALL"] if self._has_other else []),
            *(f"SELECT k FROM {self.table} WHERE {self._indexed_condition(name)} ORDER BY k" for name in asked),
        ]

    def _reattach(self) -> list[str]:
        return [f"DETACH TABLE {self.table}", f"ATTACH TABLE {self.table}"]

    # -- rows ------------------------------------------------------------------------------------------------------

    def _insert(self, table: str = "") -> list[str]:
        random = self._random
        given = [name for name, column in self._columns.all.items() if column.is_inserted and random.random() < 0.7]
        count, first = random.choice((1, 3, 50)), self._rows
        self._rows += count
        number = f"(number + {first})"
        values = {name: self._columns.all[name].value(number) for name in given}
        if random.random() < 0.8:
            values["d"] = f"toDate(if({number} % {random.choice((2, 5))} = 0, '2001-01-01', '2101-01-01'))"
        columns, picked = ", ".join(["k", *map("`{}`".format, values)]), ", ".join([number, *values.values()])
        return [f"INSERT INTO {table or self.table} ({columns}) SELECT {picked} FROM numbers({count})"]

    def _merge(self) -> list[str]:
        where = f" {self._somewhere()}" if self._random.random() < 0.2 else ""
        return [f"OPTIMIZE TABLE {self.table}{where} FINAL"]

    def _alter(self) -> list[str]:
        commands = self._columns.alteration(self._random, set(self._indexes.values()))
        if commands:
            self._keep_detached()  # what it is attached as differs: Pando knows what the columns were
        return [f"ALTER TABLE {self.table} {commands}"] if commands else self._insert()

    # -- mutations -------------------------------------------------------------------------------------------------

    def _mutate(self) -> list[str]:
        random = self._random
        where = f" IN {self._somewhere()}" if random.random() < 0.3 else ""
        if random.random() < 0.25:
            return [f"DELETE FROM {self.table}{where} WHERE {self._condition()}"]
        commands = [self._mutation(where) for _ in range(random.choice((1, 1, 2)))]
        if len(commands) > 1 and any(command.startswith("CLEAR") for command in commands):
            commands = commands[:1]  # ClickHouse fails where it clears what another command names
        return [f"ALTER TABLE {self.table} {', '.join(commands)}"]

    def _mutation(self, where: str) -> str:
        random = self._random
        free = self._columns.of(VALUES)
        computed = [name for name, column in self._columns.all.items() if column.kind in ("DEFAULT", "MATERIALIZED")]
        match random.choice(("update", "update", "update", "dates", "delete", "materialize", "clear", "apply")):
            case "update" if free:
                chosen = random.sample(free, min(len(free), random.choice((1, 1, 2))))
                number = f"(k + {random.randrange(9)})"
                pairs = ", ".join(f"`{name}` = {self._columns.all[name].value(number)}" for name in chosen)
                return f"UPDATE {pairs}{where} WHERE {self._condition()}"
            case "dates" if not self._expires:  # ClickHouse applies TTL at once then, Pando in the next merge
                return f"UPDATE d = toDate('{random.choice((2001, 2101))}-02-03'){where} WHERE {self._condition()}"
            case "materialize" if computed:
                return f"MATERIALIZE COLUMN `{random.choice(computed)}`{where}"
            case "clear" if where and (loose := sorted({*free} - {*self._indexes.values()})):
                return f"CLEAR COLUMN `{random.choice(loose)}`{where}"
            case "apply":
                return f"APPLY DELETED MASK{where}"
        return f"DELETE{where} WHERE {self._condition()}"

    def _condition(self) -> str:
        random = self._random
        number = random.randrange(max(self._rows, 1))
        options = [
            f"k = {number}",
            f"k >= {number} AND k % 2 = 0",
            f"k % {random.randrange(2, 9)} = 1",
            f"k IN (SELECT k FROM {self.table} WHERE k % 5 = {random.randrange(5)})",
            f"k < (SELECT max(number) FROM numbers({number + 1}))",
            *(f"`{name}` % 4 = {random.randrange(4)}" for name in self._columns.of(("UInt8", "Int32"))),
            *map(self._indexed_condition, self._indexes),
        ]
        return random.choice(options)

    # -- partitions ------------------------------------------------------------------------------------------------

    def _somewhere(self) -> str:
        if not self._partitions:
            return self._random.choice(("PARTITION tuple()", "PARTITION ID 'all'"))
        return f"PARTITION {self._random.randrange(self._partitions)}"

    def _partition(self) -> list[str]:
        random, where = self._random, self._somewhere()
        partition = where if self._partitions else ""
        verb = random.choice(("DROP", "DETACH", "DETACH", "ATTACH", "ATTACH", "FROM", "REPLACE", "MOVE", "TRUNCATE"))
        match verb:
            case "ATTACH" if attachable := [known for known, may in self._detached.items() if may]:
                del self._detached[partition := random.choice(attachable)]
                where = partition or where
            case "FROM":
                return self._with_other(f"ATTACH {where} FROM {self._other}")
            case "REPLACE":
                return self._with_other(f"REPLACE {where} FROM {self._other}")
            case "MOVE":
                return self._with_other(f"MOVE {where} TO TABLE {self._other}")
            case "TRUNCATE" if random.random() < 0.3:
                return [f"TRUNCATE TABLE {self.table}"]
            case "DROP":
                pass
            case _ if partition in self._detached:
                verb = "DROP"  # ClickHouse could detach an empty part, which hides the others
            case _:
                verb = "DETACH"
                self._detached[partition] = True
        return [f"ALTER TABLE {self.table} {verb} {where}"]

    def _keep_detached(self) -> None:
        self._detached = dict.fromkeys(self._detached, False)

    def _with_other(self, command: str) -> list[str]:
        """Another table of the same columns, with rows of its own, takes part."""
        self._has_other = True
        inserts = [text for _ in range(self._random.choice((1, 2))) for text in self._insert(self._other)]
        return [f"CREATE TABLE {self._other} AS {self.table}", *inserts, f"ALTER TABLE {self.table} {command}"]

    def _drop_other(self) -> list[str]:
        had, self._has_other = self._has_other, False
        return [f"DROP TABLE {self._other} SYNC"] if had else []

    # -- rows that expire, and indexes -----------------------------------------------------------------------------

    def _expire(self) -> list[str]:
        random, columns = self._random, self._columns.all
        plain = [name for name, column in columns.items() if not column.kind]
        match random.choice(("rows", "rows", "rows", "remove", "column", "materialize")):
            case "remove" if self._has_ttl:
                self._has_ttl = False
                command = "REMOVE TTL"
            case "materialize" if self._has_ttl:
                command = f"MATERIALIZE TTL{random.choice(('', f' IN {self._somewhere()}'))}"
            case "column" if plain:
                column = columns[name := random.choice(plain)]
                column.has_ttl = not column.has_ttl
                ttl = f"{column.type} TTL d + INTERVAL 1 DAY" if column.has_ttl else "REMOVE TTL"
                command = f"MODIFY COLUMN `{name}` {ttl}"
            case _:
                self._has_ttl = True
                self._keep_detached()  # ClickHouse drops rows of parts that do not know when they expire
                command = f"MODIFY TTL {random.choice(_TTLS)}"
        return [f"ALTER TABLE {self.table} {command}"]

    @property
    def _expires(self) -> bool:
        return self._has_ttl or any(column.has_ttl for column in self._columns.all.values())

    def _index(self) -> list[str]:
        random = self._random
        where = f" IN {self._somewhere()}" if random.random() < 0.3 else ""
        name = random.choice(sorted(self._indexes)) if self._indexes else ""
        match random.choice(("add", "add", "materialize", "materialize", "clear", "drop")):
            case "drop" if name:
                del self._indexes[name]
                command = f"DROP INDEX {name}"
            case "clear" if name and where:
                command = f"CLEAR INDEX {name}{where}"
            case "materialize" if name:
                command = f"MATERIALIZE INDEX {name}{where}"
            case _:
                free = [new for new in ("i", "j") if new not in self._indexes]
                if not (free and (columns := self._columns.of(_INDEXED))):
                    return self._insert()
                self._indexes[free[0]] = column = random.choice(columns)
                granularity = random.choice(("", " GRANULARITY 1", " GRANULARITY 2"))
                command = f"ADD INDEX {free[0]} {column} TYPE {random.choice(_INDEXES)}{granularity}"
        return [f"ALTER TABLE {self.table} {command}"]

    def _indexed_condition(self, index: str) -> str:
        name = self._indexes[index]
        value = self._columns.all[name].value(f"{self._random.randrange(max(self._rows, 1))}")
        return f"`{name}` {self._random.choice(('=', '=', '>', '<='))} {value}"
