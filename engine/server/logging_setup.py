"""The log of a process: JSON lines, or text for people, written to a file or standard error.

``{"time": "2026-01-31T12:00:00.123Z", "level": "information", "logger": "engine.catalog.catalog", "process": 4711,
"thread": "worker-1", "message": "…", "error": "traceback, if any"}``
"""

from __future__ import annotations

import json
import logging
import sys
import time

from engine.server.config import LoggerConfig

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
    "none": logging.CRITICAL + 1,
}
_NAMES = {
    logging.DEBUG: "debug",
    logging.INFO: "information",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}
_NOISY = ("kazoo", "httpx", "httpcore", "uvicorn", "asyncio")
"""Libraries of which only warnings and errors are logged."""


def _format_time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as JSON."""
        entry = {
            "time": _format_time(record),
            "level": _NAMES.get(record.levelno, record.levelname.lower()),
            "logger": record.name,
            "process": record.process,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Formats a log record as text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as text, followed by its traceback."""
        level = _NAMES.get(record.levelno, record.levelname.lower())
        line = f"{_format_time(record)} <{level}> {record.name}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(config: LoggerConfig) -> None:
    """Replaces the handlers of the root logger. Raises ``OSError`` if the file cannot be opened."""
    handler: logging.Handler
    if config.log is not None:
        config.log.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(config.log, encoding="utf-8")
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if config.formatting == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(_LEVELS[config.level])
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
