"""The tour of ``examples/`` runs as its README says, on a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.blocks import Block, Terminal, blocks_of

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

EXAMPLES = Path(__file__).parents[2] / "examples"


_TOLD = {
    "python examples/bulk.py": ("exported: True", "loaded: True"),
    "python -m examples": (
        "|2026-11-01|10000|", "/page2| 1000|", "visits: 100000",
        "|   0| 1000|1498500.0|", "|   1| 1000| 749750.0|", "|   2| 1010|1500510.0|",
        "after run 1: 200 rows", "after run 2: 400 rows",
        "without r2: True", "written: 1000", "r2 has caught up: True", "exported: True", "loaded: True",
    ),
}  # fmt: skip
_COMMANDS = "".join(block.text for block in blocks_of("examples/README.md")).splitlines()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("examples"))
    yield terminal
    terminal.close()


def test_the_commands_of_the_tour_in_order(terminal: Terminal) -> None:
    """One test: each command stands on those before."""
    for command in _COMMANDS:
        printed = terminal.run(Block("", command, 0))
        for told in _TOLD.get(command, ()):
            assert told in printed, f"{told} is not in {printed}"


def test_the_tour_has_the_scripts() -> None:
    assert _TOLD.keys() <= {*_COMMANDS}


def test_the_readme_names_every_script() -> None:
    text = (EXAMPLES / "README.md").read_text()
    scripts = {file.name for file in EXAMPLES.glob("*.py") if not file.name.startswith("_")}
    assert all(f"`{name}`" in text for name in scripts)
    assert all(f'"{name.removesuffix(".py")}"' in (EXAMPLES / "__main__.py").read_text() for name in scripts)
