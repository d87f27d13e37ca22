"""Every query that is compared with ClickHouse gives over tables in shards what it gives over whole ones."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from chdb.session import Session as Oracle

from engine.server.remote_servers_config import ShardConfig
from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from tests.engine.conftest import Local
from tests.engine.distributed.conftest import SHARDS
from tests.sql.run.dataset import TABLES

FILES = sorted((Path(__file__).parents[2] / "sql" / "run" / "cases").glob("*.sql"))
_FREE = re.compile(r"\bany\w*\(")
"""Which row these are of depends on which shard comes first."""
Answer = tuple[list[str], list[object]]


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Databases of the same tables: ``whole``, and ``sharded``, whose rows lie in ``s1`` and ``s2`` by turns."""
    clusters = {"two": [ShardConfig.model_validate(shard) for shard in SHARDS]}
    local = Local(tmp_path_factory.mktemp("cases") / "data", remote_servers=clusters)
    oracle = Oracle()
    for database in ("s1", "s2", "whole", "sharded"):
        local.run(f"CREATE DATABASE {database}")
    for name, (columns, query) in TABLES.items():
        lines = oracle.query(query, "TSV").bytes().splitlines(keepends=True)
        for database, rows in (("s1", lines[::2]), ("s2", lines[1::2]), ("whole", lines)):
            local.run(f"CREATE TABLE {database}.{name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
            local.run(f"INSERT INTO {database}.{name} FORMAT TSV", b"".join(rows))
        local.run(f"CREATE TABLE sharded.{name} AS whole.{name} ENGINE = Distributed(two, '', {name})")
    oracle.close()
    local.run("SET distributed_product_mode = 'allow'")
    yield local
    local.engine.stop()


@pytest.mark.long
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_shards_are_one_table(halves: Local, file: Path) -> None:
    different = []
    queries = [query for query in file.read_text().splitlines() if query.strip() and not query.startswith("--")]
    for query in queries:
        if _FREE.search(query) or not any(name in query for name in TABLES):
            continue
        whole, sharded = (_answer(halves, database, query) for database in ("whole", "sharded"))
        if whole[0] != sharded[0] or not _same(whole[1], sharded[1]):
            different.append(query)
    assert not different


def _answer(local: Local, database: str, query: str) -> Answer:
    """Names and types, and the rows in an order of their own; of an error its code."""
    local.session.database = database
    try:
        result = local.engine.execute(query, local.session)
        text = b"".join(write_blocks("JSONCompactEachRow", list(result.columns), result.batches)).decode()
    except PandoError as error:
        return [f"error {error.code}"], []
    columns = [f"{name} {type_}" for name, type_ in result.columns]
    return columns, [json.loads(line) for line in sorted(text.splitlines())]


def _same(one: object, other: object) -> bool:
    """Sums of floating point numbers depend on their order."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(itertools.starmap(_same, zip(one, other, strict=True)))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(float(str(one)), float(str(other)), rel_tol=1e-9, abs_tol=1e-9)
    return one == other
