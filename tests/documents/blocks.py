"""The fenced blocks of a Markdown document, and a folder with free ports in which they are run one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.cluster.cluster_state import find_free_ports, is_port_free

ROOT = Path(__file__).parents[2]
TOUR = (
    "README.md", "docs/getting-started.md", "docs/tables.md", "docs/clients.md", "docs/replication.md",
    "docs/shards.md", "docs/spark.md", "docs/operations.md", "docs/recovery.md", "docs/links.md",
    "docs/disaster-recovery.md",
)  # fmt: skip
"""The documents whose blocks are run, in this order: each goes on with the cluster of those before."""
_RECORDINGS = Path(__file__).with_name("recorded")
FIRST_PORT = 8123
"""The documents' replicas have this port and the next ones."""
_REPLICAS = 3
_SECONDS = 900
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\(pid \d+\)"), "(pid …)"),
    (re.compile(r"(?<=\w)  +"), "  "),
    (re.compile(r"^((?:r\d|zookeeper)  .*)$", re.MULTILINE), lambda row: re.sub(r"\b(?!812[345]\b)\d+\b", "…", row[1])),
    (re.compile(r"^127\.0\.0\.1\t\d+\t0\t\t\d\t\d$", re.MULTILINE), "127.0.0.1\t…\t0\t\t…\t…"),
    (re.compile(r"(?<=Parts: )\d+/\d+|(?<=Granules: )\d+/\d+"), "…/…"),
    (re.compile(r"\d+(?= parts in)|(?<=files, )\d+(?= bytes)"), "…"),
    (re.compile(r"\d+(?:\.\d+)?(?= (?:ms|s|[KMG]iB/s)\b)"), "…"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"), "<uuid>"),
)
"""What differs from run to run, and what is shown in its place."""


@dataclass(frozen=True)
class Block:
    """``language`` is empty for shell commands."""

    language: str
    text: str
    line: int


def blocks_of(document: str) -> list[Block]:
    """All but pictures and those that make everything: they would run these tests."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _FENCED.finditer(text)]
    return [block for block in blocks if block.language != "text" and not block.text.startswith("make ")]


def recording(document: str) -> Path:
    """The file that says what the document's blocks print."""
    return _RECORDINGS / f"{Path(document).stem}.txt"


class Terminal:
    """Runs blocks as a person would who has ``.venv/bin`` on the path, in a folder of its own and on other ports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first_port = _free_run()
        (folder / "examples").symlink_to(ROOT / "examples")
        paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        self._environment = {
            **os.environ, "PATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
            "PANDO_URL": f"http://127.0.0.1:{self._first_port},http://127.0.0.1:{self._first_port + 1}",
        }  # fmt: skip

    def run(self, block: Block) -> str:
        """What the block prints to standard output, with the document's ports.

        Raises :class:`AssertionError` when a command fails.
        """
        command = [sys.executable, "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run(
            [*command, self._moved(block.text)], cwd=self._folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"line {block.line}: exit code {done.returncode}\n{block.text}\n{done.stdout}{done.stderr[-5000:]}"
        )
        return self._steady(done.stdout)

    def close(self) -> None:
        """Ends what the blocks have started."""
        for cluster in ("colony", "west", "east"):
            if (self._folder / cluster).exists():
                self.run(Block("", f"pando cluster stop --dir ./{cluster}", 0))

    def _moved(self, text: str) -> str:
        for offset in range(_REPLICAS):
            text = re.sub(rf"\b{FIRST_PORT + offset}\b", str(self._first_port + offset), text)
        defaults = r"\bpando client (?!--port)"
        return re.sub(defaults, f"pando client --port {self._first_port} ", text)

    def _steady(self, output: str) -> str:
        for offset in range(_REPLICAS):
            output = re.sub(rf"\b{self._first_port + offset}\b", str(FIRST_PORT + offset), output)
        output = output.replace(str(self._folder), "<folder>")
        for changing, shown in _CHANGING:
            output = changing.sub(shown, output)
        return output


def recorded(text: str) -> dict[str, str]:
    """What a recording says that each block prints, by the block's text."""
    ends = [*(found.start() for found in _FENCED.finditer(text)), len(text)]
    return {
        found[2]: text[found.end() + 1 : end - 1] for found, end in zip(_FENCED.finditer(text), ends[1:], strict=True)
    }


def _free_run() -> int:
    """The first of as many free ports in a row as there are replicas."""
    while True:
        (first,) = find_free_ports(1)
        if all(is_port_free(first + offset) for offset in range(_REPLICAS)):
            return first
