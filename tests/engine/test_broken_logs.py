"""A log that has lost a part says so: an answer without its rows would look like a whole one."""

from __future__ import annotations

import pytest

from parts.common.errors import CorruptionError
from tests.engine.conftest import Local


@pytest.mark.parametrize("engine", ["StripeLog", "Log", "TinyLog"])
def test_a_broken_part_of_a_log_is_an_error(local: Local, engine: str) -> None:
    local.run(f"CREATE TABLE t (k UInt64) ENGINE = {engine}")
    local.run("INSERT INTO t SELECT number FROM numbers(1000)")
    home = local.path / "data" / "default" / "t"
    (part,) = home.glob("all_*")
    good = (part / "meta.bin").read_bytes()
    (part / "meta.bin").write_bytes(good[:-100])
    local.restart()
    for query in ("SELECT count() FROM t", "SELECT k FROM t WHERE k = 3"):
        with pytest.raises(CorruptionError) as raised:
            local.run(query)
        assert (raised.value.code, raised.value.part) == (246, part.name)
    (broken,) = (home / "detached").iterdir()
    broken.rename(part)
    (part / "meta.bin").write_bytes(good)
    local.run("DETACH TABLE t")
    local.run("ATTACH TABLE t")
    assert local.value("SELECT count() FROM t") == 1000


def test_truncate_gives_up_what_was_broken(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt64) ENGINE = StripeLog")
    local.run("INSERT INTO t VALUES (1)")
    (part,) = (local.path / "data" / "default" / "t").glob("all_*")
    (part / "meta.bin").write_bytes(b"")
    local.restart()
    local.run("TRUNCATE TABLE t")
    assert local.value("SELECT count() FROM t") == 0
    assert [name.partition("_")[0] for name in local.engine.catalog.table("default", "t").store.list_detached()] == [
        "truncated"
    ]
