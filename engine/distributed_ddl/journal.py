"""What this server has carried out of the queue of distributed DDL, kept on its own disk.

ZooKeeper says what is to be done; that something was done this file says too, before ZooKeeper hears of it. So a server
whose answer to ZooKeeper was lost knows the outcome after its start, and one whose ZooKeeper was put back to an older
state does nothing again. An entry is known by its name and by when ZooKeeper made it: a ZooKeeper that lost its data
gives the same names again.

The file ``distributed_ddl.json`` is one JSON object: ``version``, ``process`` (the name of the last process that could
change tables) and ``done``: by the entry's name a list of its identity, code, error and milliseconds.

Invariant: only the background task of :class:`engine.distributed_ddl.ddl_worker.DdlWorker` calls, one at a time.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from coordination.ddl.ddl_entry import DdlOutcome
from engine.server.durable_texts import write_durably

logger = logging.getLogger(__name__)

_FILE = "distributed_ddl.json"
_VERSION = 1
_MOST = 2000
"""The oldest of more are forgotten."""


class Journal:
    def __init__(self, directory: Path, process: str) -> None:
        """Notes that ``process`` can change tables from now on."""
        self._file = directory / _FILE
        self._process = process
        self.former, self._done = _read(self._file)
        """``former``: the process before; ``""`` at the first start."""
        self._write()

    def outcome(self, name: str, identity: str) -> DdlOutcome | None:
        found = self._done.get(name)
        return found[1] if found is not None and found[0] == identity else None

    def note(self, name: str, identity: str, outcome: DdlOutcome) -> None:
        """It is known from here on; should the disk fail, as long as the process lives."""
        self._done.pop(name, None)
        self._done[name] = identity, outcome
        for oldest in list(self._done)[:-_MOST]:
            del self._done[oldest]
        self._write()

    def _write(self) -> None:
        done = {
            name: [identity, outcome.code, outcome.error, outcome.duration_ms]
            for name, (identity, outcome) in self._done.items()
        }
        try:
            write_durably(self._file, json.dumps({"version": _VERSION, "process": self._process, "done": done}))
        except OSError as error:
            logger.error("cannot note in %s what was carried out of distributed DDL: %s", self._file, error)


def _read(file: Path) -> tuple[str, dict[str, tuple[str, DdlOutcome]]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        done = {
            str(name): (str(identity), DdlOutcome(int(code), str(error), int(milliseconds)))
            for name, (identity, code, error, milliseconds) in found["done"].items()
        }
        return str(found["process"]), done
    except FileNotFoundError:
        return "", {}
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        logger.error("%s cannot be read and is begun anew: %r", file, error)
        return "", {}
