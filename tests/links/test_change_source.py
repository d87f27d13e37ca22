"""What a source's replica gives to a link: every change once, in order, up to a place at which nothing is undecided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.linked_source import Asker, linked_table

INSERT = "INSERT INTO costs VALUES ({}, {}, 0)"


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path) as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        yield asker


def test_changes_of_every_kind_come_once_and_in_order(asker: Asker) -> None:
    asker.begin()
    first, second = asker.table.servers.servers
    first.sql(INSERT.format(1, 1))
    second.sql(INSERT.format(2, 2))
    first.sql("ALTER TABLE costs UPDATE v = 1 WHERE k = 1 SETTINGS mutations_sync = 0")
    first.sql("ALTER TABLE costs ADD COLUMN w UInt8")
    first.sql("INSERT INTO costs VALUES (1, 3, 0, 0)")
    asker.table.settle()
    first.sql("ALTER TABLE costs DROP PARTITION 2")
    changes = asker.take_all()
    kinds = [
        "block" if c.blocks else "mutation" if c.mutations else "definition" if c.definitions else "drop"
        for c in changes
    ]
    assert kinds == ["block", "block", "mutation", "definition", "block", "drop"]
    assert [c.place for c in changes] == sorted(c.place for c in changes)
    previous = [c.previous for c in changes]
    assert previous[1:] == [c.position.zxid for c in changes[:-1]]
    assert asker.take(1).changes == ()
