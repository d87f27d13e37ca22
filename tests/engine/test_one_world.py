"""What a server does depends on its world alone. ``make lint`` refuses the system's own time, chance, threads, disk and
network by name; a wait on an event's own method has no such name."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.environment import make_system_services
from engine.server.config import Config

ROOT = Path(__file__).parents[2]
WAITS = {"wait", "wait_for"}
OF_THE_WORLD = ("services", "state", "cluster", "visibility")


def waits(source: str) -> Iterator[int]:
    """The lines that wait for some time otherwise than by the world."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
            receiver = ast.unparse(node.func.value)
            if (node.args or node.keywords) and not receiver.endswith(OF_THE_WORLD):
                yield node.lineno


def allowed() -> set[Path]:
    """The files that ``pyproject.toml`` names as parts of the real world."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    patterns = [pattern for pattern, rules in lint["per-file-ignores"].items() if "TID251" in rules]
    return {file for pattern in patterns for one in _spelled_out(pattern) for file in ROOT.glob(one)}


def _spelled_out(pattern: str) -> list[str]:
    """``{a,b}/c`` as ``a/c`` and ``b/c``."""
    if "{" not in pattern:
        return [pattern]
    head, _, rest = pattern.partition("{")
    choices, _, tail = rest.partition("}")
    return [f"{head}{choice}{tail}" for choice in choices.split(",")]


def test_the_real_world_fetches_as_many_parts_as_the_configuration_says(tmp_path: Path) -> None:
    services = make_system_services(Config(path=tmp_path, background_fetches_pool_size=3))
    with services.fetches.try_take() as is_taken:
        assert is_taken
        assert services.fetches.free == 2
    assert services.fetches.free == 3
    for pool in (services.housekeeping, services.workers):
        pool.stop()


@pytest.mark.long
def test_servers_wait_by_their_world() -> None:
    rooms = ["engine", "coordination", "parts", "recovery", "sql"]
    files = {file for room in rooms for file in (ROOT / room).rglob("*.py")} - allowed()
    assert len(files) > 250
    found = [f"{file.relative_to(ROOT)}:{line}" for file in sorted(files) for line in waits(file.read_text())]
    assert not found


def test_a_wait_of_ones_own_is_seen() -> None:
    assert list(waits("self.services.wait(event, 1)\nevent.wait(1)\nchanged.wait_for(f, timeout=2)")) == [2, 3]


def test_every_allowance_is_of_a_file_that_is_there() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert not [
        pattern for pattern in lint["per-file-ignores"] for one in _spelled_out(pattern) if not any(ROOT.glob(one))
    ]
