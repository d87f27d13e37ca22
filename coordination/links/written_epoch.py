"""Remembers that clients wrote to a table in its present epoch before links alone bring rows to it.

A copy of the table has these rows, so who follows the copy later must have them too. The gate says so with the key
``"written":"<epoch>"``. Another epoch begins without such rows.
"""

from __future__ import annotations

from dataclasses import replace

from coordination.nodes.gate import Gate

WRITTEN_KEY = "written"


def note_written(gate: Gate) -> Gate:
    """Returns the gate with the note that its present epoch may have changes of clients."""
    return replace(gate, others={**gate.others, WRITTEN_KEY: gate.epoch})


def is_written(gate: Gate) -> bool:
    """Tells whether clients may have changed the table in its present epoch, before links alone do."""
    return gate.others.get(WRITTEN_KEY) == gate.epoch
