"""What the documents of YTsaurus, YugabyteDB, Tarantool and ClickHouse promise of replication, and who shows it here.

A line is one promise, option, monitored field or listed limitation, in our words. ``PROMISES`` names the tests that
show it, as ``file::test`` below ``tests/links``, or below ``tests`` if a folder is named. ``OPEN`` says why a line is
not kept. ``LATER`` lists what needs a tracker or switching over, which are not there yet.
Lines that mean nothing here (tablets, sequences, snapshot timestamps, encryption at rest) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.links.promises import clickhouse, tarantool, ytsaurus, yugabytedb
from tests.links.promises.shown_by import Lines

PROMISES: Mapping[str, Lines] = {
    "YTsaurus": ytsaurus.LINES,
    "YugabyteDB": yugabytedb.LINES,
    "Tarantool": tarantool.LINES,
    "ClickHouse": clickhouse.LINES,
}

OPEN: Mapping[str, str] = {}

LATER: tuple[str, ...] = (
    "YugabyteDB: provisional records at the target",
    "Tarantool: a write waits for so many nodes",
)
