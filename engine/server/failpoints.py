"""Named places where a test makes the process die, fail or wait, chosen by an environment variable.

``PANDO_FAILPOINTS="insert.after_rename=kill;fetch.part=pause:/some/file"``. Actions:

- ``kill``: the process sends itself SIGKILL;
- ``error``: raises ``UnavailableError``;
- ``pause:FILE``: creates ``FILE.reached`` and waits until FILE exists (at most 120 s);
- any of them followed by ``@N``: only at the N-th call.

A failpoint costs one dictionary look-up when the variable is unset. Source of the idea: FreeBSD's fail(9).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from parts.common.errors import UnavailableError

_PAUSE_LIMIT_SECONDS = 120.0
_lock = threading.Lock()
_passages: Counter[str] = Counter()


def _parse_actions(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.split(";") if item.strip())
    return {name.strip(): action.strip() for name, _, action in pairs}


_actions = _parse_actions(os.environ.get("PANDO_FAILPOINTS", ""))


def failpoint(name: str) -> None:
    """Runs the action that the environment variable sets for this failpoint; usually none."""
    action = _actions.get(name)
    if action is None:
        return
    action, _, passage = action.partition("@")
    with _lock:
        _passages[name] += 1
        if passage and _passages[name] != int(passage):
            return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "error":
        raise UnavailableError("STD_EXCEPTION", f"Failpoint {name} was asked to fail")
    elif action.startswith("pause:"):
        _wait_at(Path(action.removeprefix("pause:")))
    else:
        raise ValueError(f"unknown action {action!r} of failpoint {name}")


def _wait_at(gate: Path) -> None:
    Path(f"{gate}.reached").touch()
    deadline = time.monotonic() + _PAUSE_LIMIT_SECONDS
    while not gate.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
