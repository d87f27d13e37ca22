"""The commands of the documents do what the documents say, and exist."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.documents.blocks import RECORDING, ROOT, Terminal, blocks_of, recorded

_DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md")
_BLOCKS = blocks_of("README.md")
_RECORDED = recorded(RECORDING.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_blocks_of_the_readme_in_order_print_what_is_recorded(tmp_path: Path) -> None:
    """One test, for a block stands on those before it. It goes on after one that prints something else."""
    wrong = []
    with closing(Terminal(tmp_path)) as terminal:
        for block in _BLOCKS:
            printed, wanted = terminal.run(block), _RECORDED.get(block.text)
            if printed != wanted:
                wrong.append(f"README.md, line {block.line}\n{block.text}\nprinted\n{printed}\nand not\n{wanted}")
    assert not wrong, "\n\n".join([*wrong, "see tests/documents/__main__.py"])


def test_nothing_else_is_recorded() -> None:
    assert list(_RECORDED) == [block.text for block in _BLOCKS]


@pytest.mark.parametrize("document", _DOCUMENTS)
def test_what_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))
    for target in re.findall(r"\bmake ([a-z][a-z-]+)", code):
        listed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert listed.returncode == 0, listed.stderr
    for module in re.findall(r"python -m ([a-z_.]+)", code):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    told = subprocess.run([sys.executable, "-m", "engine.cli", "--help"], capture_output=True, text=True, check=True)
    for command in re.findall(r"\bpando ([a-z][a-z-]+)", code):
        assert f"\n  {command} " in told.stdout, command
