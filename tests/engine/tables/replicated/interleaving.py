"""Every order in which the steps of two threads can follow each other.

A thread stops at each *point* (:meth:`Turns.point`) and goes on when the order says so. So only one runs at a time, and
an order replays. They are real threads because each stops in the middle of real code. Where there are too many orders,
``most_interruptions`` leaves those in which the second thread interrupts the first so often at most, at any place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

_SECONDS = 30.0


class _Actor:
    def __init__(self, turns: Turns, action: Callable[[], None]) -> None:
        self.is_done = False
        self.is_waiting = False
        """For a step of the other one."""
        self.turn = threading.Semaphore(0)
        self.error: BaseException | None = None
        self._turns = turns
        self._action = action
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.turn.acquire()
        try:
            self._action()
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._turns.stopped.release()


class Turns:
    """One run of some actions, each in a thread of its own, in one order."""

    def __init__(self, *actions: Callable[[], None], most_interruptions: int | None = None) -> None:
        self.stopped = threading.Semaphore(0)
        self._actors = [_Actor(self, action) for action in actions]
        self.order: list[int] = []
        """Who made each step; the last step of an action ends it."""
        self.open: list[tuple[int, ...]] = []
        """Who else could have made it, and is to be tried."""
        self._interruptions = 0
        self._most_interruptions = most_interruptions

    def point(self, *, is_waiting: bool = False) -> None:
        """Called by an action. ``is_waiting``: it goes on only when another has made a step, or all others are done."""
        actor = next((actor for actor in self._actors if actor.thread is threading.current_thread()), None)
        if actor is not None:
            actor.is_waiting = is_waiting
            self.stopped.release()
            assert actor.turn.acquire(timeout=_SECONDS)

    def run(self, order: Sequence[int]) -> None:
        """In ``order`` as far as it goes, then each to its end. Raises what an action raises."""
        for actor in self._actors:
            actor.thread.start()
        while unfinished := [number for number, actor in enumerate(self._actors) if not actor.is_done]:
            able = [number for number in unfinished if not self._actors[number].is_waiting] or unfinished
            step = len(self.order)
            chosen = order[step] if step < len(order) else able[0]
            assert chosen in able, "the same order does not replay"
            self.open.append(tuple(number for number in able if number > chosen and self._may_follow(number)))
            self._interruptions += chosen > self._last
            self.order.append(chosen)
            self._step(chosen)
        for actor in self._actors:
            actor.thread.join(_SECONDS)
            if actor.error is not None:
                raise actor.error

    @property
    def _last(self) -> int:
        return self.order[-1] if self.order else 0

    def _may_follow(self, number: int) -> bool:
        is_more = number > self._last
        return self._most_interruptions is None or self._interruptions + is_more <= self._most_interruptions

    def _step(self, number: int) -> None:
        self._actors[number].turn.release()
        assert self.stopped.acquire(timeout=_SECONDS), "a thread stands where no point is: does it wait for a lock?"
        for other, actor in enumerate(self._actors):
            actor.is_waiting &= other == number


def every_order(run: Callable[[Sequence[int]], Turns]) -> Iterator[Turns]:
    """Calls ``run`` with the beginning of each order in turn, until there is none left."""
    order: list[int] = []
    while True:
        turns = run(order)
        yield turns
        # The last step that another could have made instead; all after it is open again.
        while turns.open and not turns.open[-1]:
            turns.open.pop()
        if not turns.open:
            return
        order = [*turns.order[: len(turns.open) - 1], turns.open[-1][0]]
