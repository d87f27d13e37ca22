"""The time of a simulation, and whose code runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.simulator.simulated_node import SimulatedNode


@dataclass
class Timeline:
    """The time and the running code of all clusters that meet."""

    now: float = 1_700_000_000.0
    stack: list[SimulatedNode] = field(default_factory=list)
    """The nodes whose code runs now, the innermost last."""
