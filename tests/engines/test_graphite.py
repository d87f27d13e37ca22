"""GraphiteMergeTree. ``graphite_recorded.json``: three parts, and what ClickHouse 18.16 made of them by OPTIMIZE FINAL
with the rules of :data:`ROLLUPS`, in the time zone Europe/Berlin (facts; that server is not needed here)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from coordination.log.log_entry import EntryType, LogEntry
from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config, ConfigError
from engine.server.graphite_rollup_config import convert_tag_list
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServers
from engine.simulator.trace import Trace
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.common.thread_pool import run_jobs_inline
from parts.merge import merge_parts
from parts.merge.modes.graphite import Graphite, Pattern, Rollup
from parts.read.part_reader import open_part
from tests.portions import one_in

RECORDED = json.loads(Path(__file__).with_name("graphite_recorded.json").read_text())
COLUMNS = "(Path String, Time DateTime, Value Float64, Version UInt32, extra String)"
MINUTES = {"age": 0, "precision": 60}
ROLLUPS: Mapping[str, Mapping[str, object]] = {
    "graphite_rollup": {
        "version_column_name": "Version",
        "pattern": [
            {"regexp": r"\.sum$", "function": "sum", "retention": [MINUTES, {"age": 86400, "precision": 7200}]},
            {"regexp": r"^max\.", "function": "max", "retention": {"age": 3600, "precision": 10}},
            {"regexp": "^any", "function": "any", "retention": MINUTES},
            {"regexp": "^last", "function": "anyLast", "retention": MINUTES},
            {"regexp": "^min", "function": "min", "retention": MINUTES},
        ],
        "default": {"function": "avg", "retention": [MINUTES, {"age": 864000, "precision": 86400}]},
    },
    "graphite_rollup_without_default": {
        "version_column_name": "Version",
        "pattern": {"regexp": "x", "function": "sum", "retention": MINUTES},
    },
}


class Server:
    """An engine whose configuration has rules."""

    def __init__(self, path: Path) -> None:
        self.config = Config(path=path, http_port=None, interserver_http_port=None, timezone="Europe/Berlin", **ROLLUPS)  # type: ignore[arg-type]
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "engine"):
            self.engine.stop()
        self.engine = Engine(self.config)
        self.engine.start()

    def run(self, sql: str, **settings: int) -> list[tuple[object, ...]]:
        result = self.engine.execute(sql, Session(settings=dict(settings)))
        return [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]

    def code(self, sql: str) -> int:
        with pytest.raises(PandoError) as caught:
            self.run(sql)
        return caught.value.code


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "data")
    yield running
    running.engine.stop()


@pytest.mark.parametrize("section", ROLLUPS)
def test_as_recorded_however_the_merge_is_sliced(server: Server, section: str, tmp_path: Path) -> None:
    server.run(
        f"CREATE TABLE t {COLUMNS} ENGINE = GraphiteMergeTree('{section}') ORDER BY (Path, Time) "
        "SETTINGS index_granularity = 2, min_bytes_for_wide_part = 0"
    )
    server.run("SYSTEM STOP MERGES t")
    for part in RECORDED["parts"]:
        values = ", ".join(f"('{p}', {t}, {v}, {n}, '{e}')" for p, t, v, n, e in part)
        server.run(f"INSERT INTO t VALUES {values}", optimize_on_insert=0)
    table = server.engine.catalog.table("default", "t")
    mode = table.description.merge_mode.with_time(2_000_000_000)
    for target in (1, 7, 1000):
        merge_parts(
            sorted(table.store.list_active(), key=lambda part: part.name), tmp_path / f"{target}", table.description,
            mode=mode, target_slice_rows=target,
        )  # fmt: skip
        merged = open_part(tmp_path / f"{target}", name=PartName("all", 1, 3, 1), table_schema=table.description.schema)
        rows = pa.Table.from_batches(merged.read(["Path", "Time", "Value", "Version", "extra"]))
        assert [tuple(row.values()) for row in seconds(rows).to_pylist()] == [tuple(row) for row in RECORDED[section]]


def seconds(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, "Time", rows.column("Time").cast(pa.int64()))


def test_an_insert_is_rolled_up_before_it_is_written(server: Server) -> None:
    server.run(f"CREATE TABLE t {COLUMNS} ENGINE = GraphiteMergeTree('graphite_rollup') ORDER BY (Path, Time)")
    server.run("INSERT INTO t VALUES ('any', 1500000041, 3, 9, 'a'), ('any', 1500000049, 4, 1, 'b')")
    assert server.run("SELECT toUInt32(Time), Value, Version, extra FROM t") == [(1500000000, 3.0, 1, "a")]


def test_definitions(server: Server) -> None:
    create = "CREATE TABLE {} {} ENGINE = {} ORDER BY (Path, Time)"
    for columns, engine, code in (
        (COLUMNS, "GraphiteMergeTree('nothing')", 139),
        (COLUMNS, "GraphiteMergeTree(graphite_rollup)", 36),
        (COLUMNS, "GraphiteMergeTree", 42),
        (COLUMNS, "GraphiteMergeTree()", 42),
        (COLUMNS.replace("Version", "Timestamp"), "GraphiteMergeTree('graphite_rollup')", 16),
        (COLUMNS.replace("Float64", "Decimal(9, 2)"), "GraphiteMergeTree('graphite_rollup')", 169),
        (COLUMNS.replace("UInt32", "String"), "GraphiteMergeTree('graphite_rollup')", 169),
    ):
        assert server.code(create.format("wrong", columns, engine)) == code, (columns, engine)
    server.run(create.format("t", COLUMNS, "GraphiteMergeTree('graphite_rollup')"))
    server.restart()
    assert "ENGINE = GraphiteMergeTree('graphite_rollup')" in str(server.run("SHOW CREATE TABLE t")[0][0])
    assert server.code("SELECT * FROM t FINAL") == 181
    assert server.run("SELECT count() FROM t SETTINGS final = 1") == [(0,)]
    for name in ("Path", "Value", "Version"):
        assert server.code(f"ALTER TABLE t DROP COLUMN {name}") in (36, 47, 524)
    retentions = server.run("SELECT * FROM system.graphite_retentions")
    assert retentions[:2] == [
        ("graphite_rollup", "all", r"\.sum$", "sum", 0, 60, 1, 0, ["default"], ["t"]),
        ("graphite_rollup", "all", r"\.sum$", "sum", 86400, 7200, 1, 0, ["default"], ["t"]),
    ]
    assert retentions[-1] == ("graphite_rollup", "all", "", "avg", 864000, 86400, 65535, 1, ["default"], ["t"])
    assert len(retentions) == 8
    server.run(
        "INSERT INTO t VALUES ('any', 1500000041, 3, 9, 'a'), ('any', 1500000049, 4, 1, 'b')", optimize_on_insert=0
    )
    server.run("SYSTEM STOP TTL MERGES t")
    server.run("OPTIMIZE TABLE t FINAL DEDUPLICATE")
    assert server.run("SELECT Value, Version, extra FROM t") == [(3.0, 1, "a")]


@pytest.mark.parametrize(
    "section",
    [
        {"pattern": {"regexp": "(", "function": "sum", "retention": MINUTES}},
        {"pattern": {"regexp": "x", "function": "quantile(0.5)", "retention": MINUTES}},
        {"pattern": {"regexp": "x"}},
        {"default": {"function": "sum", "retention": {"age": 0, "precision": 0}}},
        {"defalt": {"function": "sum", "retention": MINUTES}},
    ],
)
def test_wrong_configurations(tmp_path: Path, section: Mapping[str, object]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"path": "data", "graphite_rollup": section}))
    with pytest.raises(ConfigError, match="graphite_rollup"):
        Config.load(file)


def test_which_rule_a_path_has() -> None:
    minutes = ((0, 60),)
    rollup = Rollup(
        "r",
        patterns=(
            Pattern("steps", "", minutes),
            Pattern("sum", "sum"),
            Pattern("both", "max", ((0, 10),)),
            Pattern("min", "min"),
            Pattern("env=dev", "any", minutes, "tagged"),
            Pattern("^dev", "any", minutes, "plain"),
            Pattern("", "avg", minutes),
        ),
    )
    expected = {
        "other": (6, 6), "steps": (0, 6), "sum": (6, 1), "steps.sum": (0, 1), "steps.both": (2, 2), "sum.both": (2, 2),
        "min.sum": (6, 1), "steps.min": (0, 3), "a?env=dev": (4, 4), "env=dev": (6, 6), "dev": (5, 5),
        "dev?a=b": (6, 6),
    }  # fmt: skip
    steps, functions = rollup.rules_of(pa.array(list(expected)))
    assert dict(zip(expected, zip(steps.tolist(), functions.tolist(), strict=True), strict=True)) == expected
    halves = Rollup("r", patterns=rollup.patterns[:2])
    steps, functions = halves.rules_of(pa.array(["steps", "sum", "steps.sum"]))
    assert (steps.tolist(), functions.tolist()) == ([-1, -1, 0], [-1, -1, 1])


@pytest.mark.parametrize(
    ("text", "regexp", "found", "others"),
    [
        ("cpu", r"^cpu\?", ["cpu?a=b"], ["cpu", "xcpu?a=b"]),
        ("env=(a|b)", r"[?&]env=(a|b)(&.*)?$", ["x?env=a", "x?a=1&env=b&z=1"], ["x?env=c", "x?aenv=a"]),
        ("c.* ; z=1 ; a=2", r"^c.*\?(.*&)?a=2&(.*&)?z=1(&.*)?$", ["cpu?a=2&z=1", "c?a=2&m=3&z=1"], ["cpu?a=2"]),
    ],
)
def test_lists_of_tags(text: str, regexp: str, found: list[str], others: list[str]) -> None:
    assert convert_tag_list(text) == regexp
    steps, _ = Rollup("r", patterns=(Pattern(regexp, "sum", ((0, 1),), "tagged"),)).rules_of(pa.array(found + others))
    assert steps.tolist() == [0] * len(found) + [-1] * len(others)


Row = tuple[str, int, float, int, int]


def expected_rows(rows: list[Row], rollup: Rollup, now: int) -> list[Row]:
    """One row after the other."""
    functions: Mapping[str, Callable[[list[float]], float]] = {
        "sum": sum, "max": max, "min": min, "any": lambda v: v[0], "anyLast": lambda v: v[-1], "count": len,
        "avg": lambda v: sum(v) / len(v),
    }  # fmt: skip
    found: dict[tuple[str, int], dict[int, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[1])):
        steps, _ = rollup.rules_of(pa.array([row[0]]))
        ages = rollup.patterns[steps[0]].retentions if steps[0] >= 0 else ()
        length = next((step for age, step in sorted(ages, reverse=True) if now - row[1] >= age), 1)
        midnight = 0
        if length > 3600:
            local = datetime.fromtimestamp(row[1], ZoneInfo(rollup.timezone))
            midnight = int(local.replace(hour=0, minute=0, second=0).timestamp())
        time = midnight + (row[1] - midnight) // length * length
        found.setdefault((row[0], time), {}).setdefault(row[1], []).append(row)
    result = []
    for (path, time), times in found.items():
        _, function = rollup.rules_of(pa.array([path]))
        newest = [max(enumerate(same), key=lambda item: (item[1][3], item[0]))[1] for same in times.values()]
        name = rollup.patterns[function[0]].function if function[0] >= 0 else "anyLast"
        value = functions[name]([row[2] for row in newest])
        result.append((path, time, float(value), newest[-1][3], next(iter(times.values()))[0][4]))
    return result


@pytest.mark.parametrize("seed", one_in(4, range(12)))
@pytest.mark.long
def test_any_cut_gives_the_same_rows(seed: int) -> None:
    chance = random.Random(seed)
    now = 1_700_000_000
    kinds = ["sum", "max", "min", "any", "anyLast", "avg", "count"]
    steps = ((0, 60), (3600, 600), (90_000, 7200))
    rollup = Rollup(
        "r",
        patterns=tuple(Pattern(f"^{kind}", kind, steps) for kind in kinds),
        timezone=chance.choice(["UTC", "Asia/Kolkata", "America/Sao_Paulo"]),
    )
    rows: list[Row] = []
    for number in range(400):
        path = f"{chance.choice([*kinds, 'none'])}.{chance.randrange(3)}"
        time = now - chance.choice([-50, 30, 700, 4000, 95_000, 200_000]) + chance.randrange(200)
        rows.append((path, time, chance.randint(-20, 20) / 4, chance.randrange(3), number))
    expected = expected_rows(rows, rollup, now)
    rows.sort(key=lambda row: (row[0], row[1]))
    types = [pa.string(), pa.timestamp("s"), pa.float64(), pa.uint32(), pa.int64()]
    names = [rollup.path, rollup.time, rollup.value, rollup.version, "number"]
    columns = [pa.array(values).cast(type_) for values, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    table = pa.table(dict(zip(names, columns, strict=True)))
    cuts = sorted({0, len(rows), *(chance.randrange(len(rows)) for _ in range(seed * 8))})
    blocks = [table.slice(begin, end - begin) for begin, end in itertools.pairwise(cuts)]
    reduced = pa.concat_tables(Graphite(rollup, now).reduce_across_slices(iter(blocks)))
    found = [
        (path, int(time.replace(tzinfo=UTC).timestamp()), *rest)
        for path, time, *rest in zip(*(reduced.column(name).to_pylist() for name in names), strict=True)
    ]
    assert found == expected
    assert reduced.schema == table.schema
    assert list(Graphite(rollup, now).reduce_across_slices(iter([table.slice(0, 0)]))) == []


def test_steps_that_do_not_divide_each_other_leave_times_in_order() -> None:
    rollup = Rollup("r", patterns=(Pattern("", "sum", ((0, 60), (100, 90))),))
    times = [95, 100, 130, 185]
    block = pa.table(
        {
            "Path": ["a"] * 4,
            "Time": pa.array(times).cast(pa.timestamp("s")),
            "Value": [1.0, 2.0, 4.0, 8.0],
            "Timestamp": [1] * 4,
        }
    )
    for blocks in ([block], [block.slice(i, 1) for i in range(4)]):
        reduced = pa.concat_tables(Graphite(rollup, 196).reduce_across_slices(iter(blocks)))
        assert reduced.column("Time").cast(pa.int64()).to_pylist() == [90, 120, 180]
        assert reduced.column("Value").to_pylist() == [3.0, 4.0, 8.0]


def test_replicas_roll_up_at_the_time_of_the_log_entry(tmp_path: Path) -> None:
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        servers = SimulatedServers(tmp_path, 2, 1, Trace(None), disks, config_of=lambda name: dict(ROLLUPS))
        one, two = servers.servers
        engine = "ReplicatedGraphiteMergeTree('/tables/g', '{replica}', 'graphite_rollup')"
        for server in servers.servers:
            server.sql(f"CREATE TABLE g {COLUMNS} ENGINE = {engine} ORDER BY (Path, Time)")
        begin = int(servers.now) - 864_000 + 50_000  # in steps of a day by the time that the second comes back
        for start in (0, 7):
            values = ", ".join(f"('a', {begin + start + second}, 1, 1, '')" for second in range(0, 1000, 20))
            one.sql(f"INSERT INTO g VALUES {values}", optimize_on_insert=0)
        servers.settle()
        two.is_frozen = True
        one.sql("OPTIMIZE TABLE g FINAL")
        servers.now += timedelta(days=3).total_seconds()
        two.is_frozen = False
        servers.settle()
        count = "SELECT count(), sum(Value), max(toUInt32(Time)) FROM g"
        assert one.sql(count)[1] == two.sql(count)[1]
        assert one.sql("SELECT count() FROM g")[1][0][0] > 2  # type: ignore[operator]
        hashes = [
            {str(part.name): part.content_hash for part in server.tables[0].store.list_active()}
            for server in (one, two)
        ]
        assert hashes[0] == hashes[1]
        merged = [entry for entry in logged(servers) if entry.type is EntryType.MERGE_PARTS]
        assert merged
        assert all(entry.expire_at for entry in merged)
        servers.end()


def logged(servers: SimulatedServers) -> list[LogEntry]:
    keeper, log = servers.ensemble.connect(), "/tables/g/log"
    return [LogEntry.parse(keeper.get(f"{log}/{name}")[0]) for name in keeper.children(log)]
