"""The commands of the documents do what the documents say, and exist."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT, TOUR, Terminal, blocks_of, recorded, recording

_DOCUMENTS = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md",
    *sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")),
)  # fmt: skip
_RECORDED = {document: recorded(recording(document).read_text(encoding="utf-8")) for document in TOUR}
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_blocks_of_the_documents_in_order_print_what_is_recorded(tmp_path: Path) -> None:
    """One test, for a block stands on those before it. It goes on after one that prints something else."""
    wrong = []
    with closing(Terminal(tmp_path)) as terminal:
        for document in TOUR:
            for block in blocks_of(document):
                printed, wanted = terminal.run(block), _RECORDED[document].get(block.text)
                if printed != wanted:
                    place = f"{document}, line {block.line}"
                    wrong.append(f"{place}\n{block.text}\nprinted\n{printed}\nand not\n{wanted}")
    assert not wrong, "\n\n".join([*wrong, "see tests/documents/__main__.py"])


@pytest.mark.parametrize("document", TOUR)
def test_nothing_else_is_recorded(document: str) -> None:
    assert list(_RECORDED[document]) == [block.text for block in blocks_of(document)]


def test_commands_stand_in_the_tour() -> None:
    """Every page whose blocks are commands is run."""
    pages = {name for name in _DOCUMENTS if name.startswith("docs/") and blocks_of(name)}
    assert pages <= set(TOUR)


@pytest.mark.parametrize("document", _DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    file = ROOT / document
    text = re.sub(r"`[^`\n]*`", "``", file.read_text(encoding="utf-8"))  # code has no links
    for path, heading in _LINK.findall(text):
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), path
        if heading:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings], heading


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert all(f"({page.name})" in index for page in (ROOT / "docs").glob("*.md") if page.name != "index.md")


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
