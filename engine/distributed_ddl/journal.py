"""The outcomes of queued ON CLUSTER statements on this server, kept on its own disk.

An outcome is written here before ZooKeeper gets it. So a server whose response to ZooKeeper was lost knows the outcome
after a restart, and one whose ZooKeeper was restored to an older state repeats nothing. An entry is identified by its
name and the time ZooKeeper created it, because a ZooKeeper that lost its data reuses names.

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
_MOST_OUTCOMES = 2000
"""Number of outcomes kept; older ones are dropped."""


class Journal:
    """The journal of one server."""

    def __init__(self, directory: Path, process: str) -> None:
        """Reads the file and records that ``process`` can change tables from now on."""
        self._file = directory / _FILE
        self._process = process
        self.former, self._done = _read_file(self._file)
        """``former``: the name of the previous process; ``""`` at the first start."""
        self._write_file()

    def outcome(self, name: str, identity: str) -> DdlOutcome | None:
        """Returns the recorded outcome of this entry, if any."""
        found = self._done.get(name)
        return found[1] if found is not None and found[0] == identity else None

    def note(self, name: str, identity: str, outcome: DdlOutcome) -> None:
        """Records an outcome. If the disk fails it is known only as long as the process lives."""
        self._done.pop(name, None)
        self._done[name] = identity, outcome
        for oldest in list(self._done)[:-_MOST_OUTCOMES]:
            del self._done[oldest]
        self._write_file()

    def _write_file(self) -> None:
        done = {
            name: [identity, outcome.code, outcome.error, outcome.duration_ms]
            for name, (identity, outcome) in self._done.items()
        }
        try:
            write_durably(self._file, json.dumps({"version": _VERSION, "process": self._process, "done": done}))
        except OSError as error:
            logger.error("cannot note in %s what was carried out of distributed DDL: %s", self._file, error)


def _read_file(file: Path) -> tuple[str, dict[str, tuple[str, DdlOutcome]]]:
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
