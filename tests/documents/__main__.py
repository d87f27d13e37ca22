"""``python -m tests.documents`` records anew what README's blocks print: look at the difference."""

import tempfile
from pathlib import Path

from tests.documents.blocks import RECORDING, Terminal, blocks_of

with tempfile.TemporaryDirectory() as folder:
    terminal = Terminal(Path(folder))
    try:
        blocks = [f"```{block.language}\n{block.text}```\n{terminal.run(block)}\n" for block in blocks_of("README.md")]
    finally:
        terminal.close()
RECORDING.write_text("".join(blocks), encoding="utf-8")
