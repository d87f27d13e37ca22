"""``python -m examples``: the whole tour, in order."""

import runpy
from pathlib import Path

for name in ("batch", "overwrite", "streaming", "failover", "bulk"):
    print(f"\n--- {name}.py ---", flush=True)
    runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))
