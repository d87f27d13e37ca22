"""For all tests.

How long an example of hypothesis takes says nothing on a machine that does other things too. What pytest-timeout's
signal cannot break off (a call into a library, a clean-up that waits) ends the process, with all threads' stacks; with
the process ends ``make test``.

Tests that share the servers that a fixture starts once for their module run in one process of pytest-xdist: they are
not started twice, and a test may look at what the one before it made.

The garbage collector leaves the thousands of modules and test items alone, which stay until the end.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import low_descriptors
from tests.portions import is_in_portion

_SECONDS = 400.0
_GRACE_SECONDS = 100.0
"""Longer than pytest-timeout waits, which tells better what is wrong."""

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""ZooKeeper and Spark live for minutes here: what a JVM compiles at length does not pay."""

settings.register_profile("pando", deadline=None)
settings.load_profile("pando")
low_descriptors.keep()
_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is captured yet: what is written here is seen."""
    config.stash[_stderr] = os.dup(2)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--portion", default="0/1", help="K/N: of N portions of the tests that are selected, the K-th, counted from 0"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    portion = config.getoption("portion")
    kept = [item for item in items if is_in_portion(_name_together(item), portion)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_servers(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A portion of few tests may be empty: nothing failed then."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("portion") != "0/1":
        session.exitstatus = pytest.ExitCode.OK


def _name_together(item: pytest.Item) -> str:
    """Returns the same for tests that are in one portion: a test of servers may look at what the one before it made."""
    return item.path.stem if item.get_closest_marker("cluster") is not None else item.nodeid


def _shares_servers(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or item.get_closest_marker("cluster") is None:
        return False
    found = item._fixtureinfo.name2fixturedefs.values()
    return any(fixture.scope == "module" for definitions in found for fixture in definitions)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collections of garbage would look at all items again and again while they are made."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        atexit.register(gc.unfreeze)  # DuckDB's binding complains about what is left at the end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    faulthandler.dump_traceback_later(_most_seconds(item), exit=True, file=item.config.stash[_stderr])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _most_seconds(item: pytest.Item) -> float:
    """As long as the test's own timeout says, and the grace."""
    own = item.get_closest_marker("timeout")
    return max(_SECONDS, float(own.args[0]) + _GRACE_SECONDS) if own is not None and own.args else _SECONDS
