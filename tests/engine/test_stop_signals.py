"""A process that waits for the signal to end ends, whenever the signal comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WAITS = """
import os, signal, threading
from engine.commands.stop_signals import StopSignals

for _ in range(200):
    stop = StopSignals()
    threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGTERM)).start()
    while not stop.wait(0):
        pass
print("ended 200 times")
"""


@pytest.mark.long
def test_a_signal_that_comes_at_any_instruction_of_the_wait_ends_it() -> None:
    """``threading.Event`` in its place hangs within some tens of signals."""
    done = subprocess.run([sys.executable, "-c", _WAITS], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended 200 times\n", done.stderr
