"""A job that runs again under its token: every row once, or an error."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from parts.errors import PandoError, UserError
from spark_connector.writer import check_target, close_job, write_blocks
from tests.spark.conftest import Pando, save

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

ENGINES = {"replicated": ("", ""), "alone": ("MergeTree", "non_replicated_deduplication_window = 1000")}


def in_tasks(spark: SparkSession, *tasks: range) -> DataFrame:
    """A frame with these keys in these tasks. All ranges that are not empty have one length."""
    length = max(len(keys) for keys in tasks)
    starts = ", ".join(f"{keys.start if keys else -1}" for keys in tasks)
    frame = spark.range(0, length * len(tasks), 1, len(tasks))
    return frame.selectExpr(
        f"array({starts})[int(id div {length})] AS start", f"id % {length} AS n"
    ).where("start >= 0").selectExpr("start + n AS k")  # fmt: skip


Run = tuple[tuple[tuple[int, ...], ...], int]
"""The keys of each task in the order in which they come, and batch_rows."""

KEYS = StructType([StructField("k", LongType(), False), StructField("c", LongType(), False)])
_UP = tuple(range(8))
JOBS: list[Run] = [
    (tasks, batch_rows)
    for tasks in (
        (_UP[:4], _UP[4:]),
        (_UP[4:], _UP[:4]),
        (_UP[:5], _UP[5:]),
        (_UP[:4][::-1], _UP[4:]),
        (_UP[:4], (), _UP[4:]),
        (_UP[:3], _UP[3:6], _UP[6:]),
        (_UP,),
        (_UP, ()),
        ((), _UP),
        ((), (), _UP[:4], _UP[4:]),
    )
    for batch_rows in (2, 3, 100)
]


class Case:
    """One token on a table that other cases use too; the tasks are run as Spark runs them, without it."""

    def __init__(self, pando: Pando, table: str, number: int, **options: str) -> None:
        self.pando, self.table, self.number, self.options = pando, table, number, options

    def run(self, job: Run, only: int | None = None) -> str:
        """How it ended: empty, or the error. ``only``: just this task is run, and the job not ended."""
        tasks, batch_rows = job
        token = f"load {self.number}"
        options = self.pando.parsed(self.table, batch_rows=str(batch_rows), token=token, **self.options)
        target = check_target(options, KEYS, truncate=False)
        try:
            written = [
                write_blocks(target, token, task, [pa.record_batch({"k": keys, "c": [self.number] * len(keys)})])
                for task, keys in enumerate(tasks)
                if only in (None, task)
            ]
            if only is None:
                close_job(target, token, written)
        except PandoError as error:
            return str(error)
        return ""

    def keys(self) -> list[int]:
        found = self.pando.value(f"SELECT groupArray(k) FROM {self.table} WHERE c = {self.number}")
        assert isinstance(found, list)
        return sorted(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_any_second_run_after_any_first_run(pando: Pando, engine: str) -> None:
    """Some of all the pairs; ``test_token_claim`` goes through all that the claims decide."""
    table = pando.new_table("k Int64, c Int64", "k PARTITION BY k % 2", *ENGINES[engine])
    choose = random.Random(7)
    ends: Counter[bool] = Counter()
    for number in range(40):
        case = Case(pando, table, number, url=pando.urls["r1"])
        first = choose.choice(JOBS)
        stop = choose.choice([None, *range(len(first[0]))])
        assert not case.run(first, stop)
        before = case.keys()
        second = choose.choice([first, choose.choice(JOBS), choose.choice(JOBS)])
        error = case.run(second)
        ends[not error] += 1
        assert not error or first != second, (number, error)
        assert not error or ("INSERT_WAS_DEDUPLICATED" in error and "write with a new token" in error)
        assert error or case.keys() == list(_UP), (number, first, stop, second)
        assert stop is not None or case.keys() == before, (number, first, second)
    assert min(ends.values()) > 3


def test_a_token_needs_a_table_that_deduplicates(pando: Pando) -> None:
    alone = pando.new_table("k Int64, c Int64", "k", engine="MergeTree")
    never = pando.new_table("k Int64, c Int64", "k", settings="replicated_deduplication_window = 0")
    off = {"setting.insert_deduplicate": "0"}
    for table, more in ((alone, {}), (never, {}), (pando.new_table("k Int64, c Int64", "k"), off)):
        pando["r1"].execute(f"INSERT INTO {table} VALUES (1, 1)")
        options = pando.parsed(table, url=pando.urls["r1"], token="load", **more)
        with pytest.raises(UserError, match=r"the option 'token' does nothing for .* does not deduplicate"):
            check_target(options, KEYS, truncate=True)
        assert pando.value(f"SELECT count() FROM {table}") == 1


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_task_that_was_empty_has_rows_now(pando: Pando, spark: SparkSession, is_stopped: bool) -> None:
    """Refused at its first block if the first run came to its end, otherwise at the end of the second."""
    table = pando.new_table("k Int64", "k")
    options = pando.options(table, token="load")
    if is_stopped:
        target = check_target(pando.parsed(table, token="load"), StructType(KEYS.fields[:1]), truncate=False)
        write_blocks(target, "load", 1, [pa.record_batch({"k": range(1000)})])
    else:
        save(in_tasks(spark, range(0), range(1000)), options)
    with pytest.raises(Exception, match=r"(?s)run again under its token.* write with a new token"):
        save(in_tasks(spark, range(1000), range(0)), options)
    pando.sync(table)
    assert pando.value(f"SELECT count() FROM {table}") == (2000 if is_stopped else 1000)
    if not is_stopped:
        save(in_tasks(spark, range(0), range(1000)), options)
        assert pando.value(f"SELECT count() FROM {table}") == 1000
