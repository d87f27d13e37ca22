"""A part whose files are not what was written is found by who reads it, named, and fetched anew; meanwhile no answer is
wrong, and queries that do not need the part are answered."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from engine.simulator.simulated_servers import SimulatedServer
from parts.common.errors import CorruptionError
from parts.format.hashed_file import call_before_reads
from tests.engine.conftest import Local
from tests.recovery.conftest import ROWS, Operator
from tests.recovery.damages import KINDS, Damage, create, damages_of, insert, query

REPLICATED = "ReplicatedMergeTree('/clickhouse/tables/1/d', '{replica}')"


def _files(table: Path) -> list[str]:
    """Of the first part."""
    return sorted(path.name for path in next(path for path in table.iterdir() if path.name.startswith("0_")).iterdir())


def _filled(operator: Operator, kind: str) -> list[Damage]:
    """The same parts on both servers, one for each damage that there is, and one more."""
    for server in operator.servers.servers:
        server.sql(create(REPLICATED, kind))
    for statement in insert(1):
        operator.first.sql(statement)
    damages = damages_of(_files(operator.data(operator.first)))
    operator.first.sql("TRUNCATE TABLE u")
    for statement in insert(len(damages) + 1):
        operator.first.sql(statement)
    operator.servers.settle()
    return damages


def _meets(server: SimulatedServer, damage: Damage, part: str, right: Sequence[object]) -> bool:
    """Whether a query fails for it; else its answer is right."""
    try:
        answer = server.sql(query(damage.partition))[1]
    except CorruptionError as error:
        met = error
    else:
        assert answer == [right[damage.partition]], damage
        return False
    assert met.part == part, damage
    assert part in met.message
    return True


@pytest.mark.parametrize("was_read", [False, True], ids=["new", "read"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_select_meets_is_mended(operator: Operator, kind: str, was_read: bool) -> None:
    damages = _filled(operator, kind)
    right = operator.first.sql(query())[1]
    table = operator.data(operator.second)
    if was_read:
        operator.second.sql(query())
    else:
        operator.second.sql("DETACH TABLE u")
        operator.second.sql("ATTACH TABLE u")
        operator.servers.settle()
    parts = {damage: damage.hurt(table) for damage in damages}
    met = [damage for damage, part in parts.items() if _meets(operator.second, damage, part, right)]
    assert operator.second.sql(query(len(damages)))[1] == right[-1:]
    operator.servers.settle(rounds=4 * len(damages))
    if was_read:  # queries of single parts may have found what they need in memory, and this one meets a damage
        with suppress(CorruptionError):
            operator.second.sql(query())
        operator.servers.settle(rounds=4 * len(damages))
    assert operator.second.sql(query())[1] == right
    assert met or was_read or kind == "packed"
    # What was in memory, and no query has met, CHECK TABLE finds.
    failed = [row for row in operator.second.sql("CHECK TABLE u")[1] if not row[1]]
    assert {str(name) for name, *_ in failed} <= set(parts.values())
    operator.servers.settle(rounds=4 * len(damages))
    assert not [row for row in operator.second.sql("CHECK TABLE u")[1] if not row[1]]
    detached = operator.second.sql("SELECT name FROM system.detached_parts")[1]
    assert {name for (name,) in detached} == {f"broken_{part}" for part in parts.values()}


def test_a_file_that_the_disk_does_not_give_keeps_nobody_from_starting(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    victim, *_ = (path for path in operator.parts(operator.second) if path.name.endswith("_0"))
    operator.second.sql("DETACH TABLE u")

    def fail(path: Path) -> None:
        if path.parent == victim:
            raise OSError(errno.EIO, "Input/output error", str(path))

    with call_before_reads(fail):
        operator.second.sql("ATTACH TABLE u")
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS
    assert [path.name for path in (operator.data(operator.second) / "detached").iterdir()] == [
        f"broken-on-start_{victim.name}"
    ]


def test_a_file_in_the_place_of_a_part_is_a_broken_part(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.second.sql("DETACH TABLE u")
    victim = next(path for path in operator.parts(operator.second) if path.name.startswith("1_"))
    shutil.rmtree(victim)
    victim.write_bytes(b"what is this?")
    operator.second.sql("ATTACH TABLE u")
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS


def test_a_part_whose_directory_is_gone_comes_back(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    (victim, *_) = (path for path in operator.parts(operator.second) if path.name.startswith("1_"))
    shutil.rmtree(victim)
    assert [row for row in operator.second.sql("CHECK TABLE u")[1] if not row[1]]
    operator.servers.settle()
    assert not [row for row in operator.second.sql("CHECK TABLE u")[1] if not row[1]]
    assert operator.rows(operator.second) == ROWS
    assert victim.is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_without_replicas_a_broken_part_fails_only_who_needs_it(local: Local, kind: str) -> None:
    local.run(create("MergeTree", kind))
    for statement in insert(3):
        local.run(statement)
    right = local.run(query())
    local.run("DETACH TABLE u")
    local.run("ATTACH TABLE u")
    table = local.path / "data" / "default" / "u"
    file = "s.bin" if kind == "wide" else "data.bin" if kind == "compact" else "meta.bin"
    part = Damage(1, "missing", file).hurt(table)
    if kind != "packed":  # a small packed part is in memory
        with pytest.raises(CorruptionError) as raised:
            local.run(query())
        assert (raised.value.part, raised.value.file, raised.value.code) == (part, file, 226)
    assert local.run(query(0)) + local.run(query(2)) == [right[0], right[2]]
    assert [name for name, is_whole, _ in local.run("CHECK TABLE u") if not is_whole] == [part]
    assert (table / part).is_dir()
