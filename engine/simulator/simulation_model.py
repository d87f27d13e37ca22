"""The model of a simulation: blocks that clients inserted, and weights of random actions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Expectation(Enum):
    """How often a block's rows must be there."""

    NEVER = "not there"
    ONCE = "there exactly once"
    MAYBE = "there once or not at all"


@dataclass(eq=False)
class Block:
    """Keys that a client inserts together, and what the client was told of them."""

    partition: int
    keys: list[int]
    token: str
    expected: Expectation = Expectation.NEVER
    attempts: int = 0
    attempts_under_way: int = 0
    was_truncated_meanwhile: bool = False
    is_always_quorum: bool = True
    """Whether every attempt asked for a quorum, so that the stored one did."""
    quorum_acknowledged: bool = False
    is_truncated: bool = False
    """Whether it was truncated in this round; a lagging replica may still show it."""
    seen_sequentially: bool = False
    is_in_transaction: bool = False
    """Whether a transaction inserts it, so that nothing else may."""
    is_retired: bool = False
    """Whether it must not be inserted any more."""
    was_attached: bool = False
    """Whether it was attached, or may have been."""


@dataclass
class Weights:
    """How often each action happens, relative to the others."""

    insert: float = 5
    repeat: float = 3
    step: float = 30
    restart: float = 2
    end_zombies: float = 1
    cut: float = 0.5
    mend: float = 1
    truncate: float = 0.2
    optimize: float = 0.5
    read: float = 1
    wipe: float = 0
    crash: float = 0.5
    detach: float = 0.5
