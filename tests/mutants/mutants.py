"""Bugs that were put in on purpose, as patches against the tree, and who catches each.

A patch begins with lines of text: what is wrong, and ``caught by: <arguments of pytest>``, perhaps several times: each
of these must fail under it. A new promise of the code deserves one: break it, see which test notices, ``git diff``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIRECTORY = Path(__file__).parent
_CAUGHT_BY = re.compile(r"^caught by: (.+)$", re.MULTILINE)
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "out", "colony", "*.egg-info")
_SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    patch: Path

    @property
    def name(self) -> str:
        return self.patch.stem

    @property
    def head(self) -> str:
        return self.patch.read_text().partition("diff --git")[0]

    @property
    def catchers(self) -> list[list[str]]:
        return [shlex.split(arguments) for arguments in _CAUGHT_BY.findall(self.head)]

    def apply(self, tree: Path, *options: str) -> str:
        """What is wrong with the patch; empty when it applies."""
        command = ["git", "apply", *options, str(self.patch)]
        no_repository = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
        result = subprocess.run(command, cwd=tree, env=no_repository, capture_output=True, text=True, check=False)
        return result.stderr if result.returncode else ""

    def survives(self, directory: Path) -> str:
        """In a copy of the tree below ``directory``; empty when every catcher fails, as it should."""
        tree = directory / self.name
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        if problem := self.apply(tree):
            return f"does not apply: {problem}"
        for arguments in self.catchers:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *arguments]
            try:
                environment = {**os.environ, "PYTHONPATH": str(tree)}
                result = subprocess.run(
                    command,
                    cwd=tree,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return f"{shlex.join(arguments)} did not end in {_SECONDS} s"
            if result.returncode != 1:  # 0: nothing failed; 2 and more: pytest did not get that far
                return f"{shlex.join(arguments)} ended with {result.returncode}\n{result.stdout[-2000:]}"
        shutil.rmtree(tree)
        return ""


def all_mutants() -> list[Mutant]:
    return [Mutant(patch) for patch in sorted(DIRECTORY.glob("*.patch"))]
