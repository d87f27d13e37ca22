"""``python -m tests.mutants [name …]``: every bug that was put in must be caught. Several minutes."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import all_mutants


def main(names: list[str]) -> int:
    mutants = [mutant for mutant in all_mutants() if not names or mutant.name in names]
    survivors = 0
    for mutant in mutants:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="pando-mutant-") as directory:
            survives = mutant.survives(Path(directory))
        survivors += bool(survives)
        print(f"{mutant.name}: {survives or 'caught'} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} caught")
    return int(survivors > 0 or not mutants)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
