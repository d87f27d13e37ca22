"""``python -m tests.documents [page …]`` records anew what the documents' blocks print: look at the difference.

A page can be given alone if its blocks start the clusters that they need.
"""

import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.documents.blocks import TOUR, Terminal, blocks_of, recording

with tempfile.TemporaryDirectory() as folder, closing(Terminal(Path(folder))) as terminal:
    for document in sys.argv[1:] or TOUR:
        blocks = [f"```{block.language}\n{block.text}```\n{terminal.run(block)}\n" for block in blocks_of(document)]
        recording(document).write_text("".join(blocks), encoding="utf-8")
