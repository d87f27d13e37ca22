"""Completion: keywords, functions, and the names of databases, tables and columns.

Names are read in the background, at the start and after each statement that may have changed them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from engine.client.backends import Backend
from sql.grammar.keywords import KEYWORDS

_NAME_QUERIES = (
    "SELECT name FROM system.databases",
    "SELECT name FROM system.tables WHERE database = currentDatabase()",
    "SELECT name FROM system.tables WHERE database = 'system'",
    "SELECT DISTINCT name FROM system.columns WHERE database = currentDatabase()",
    "SELECT name FROM system.functions",
    "SELECT name FROM system.settings",
)
_SCHEMA_WORDS = ("CREATE", "DROP", "ATTACH", "DETACH", "RENAME", "USE")
_MAX_OFFERED = 60


class SqlCompleter(Completer):
    """Completes words of SQL."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._keywords = sorted({*KEYWORDS, "MergeTree", "ReplicatedMergeTree"})
        self._names: list[str] = []

    def refresh(self) -> None:
        """Reads the names again, in the background."""
        threading.Thread(target=self._read_names, daemon=True).start()

    def refresh_after(self, statement: str) -> None:
        """Reads the names again if the statement may have changed them."""
        if statement.lstrip()[:8].upper().startswith(_SCHEMA_WORDS):
            self.refresh()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields names, then keywords, that begin with the word before the cursor."""
        word = document.get_word_before_cursor(WORD=False)
        if not word or not (word[0].isalpha() or word[0] == "_"):
            return
        lower = word.lower()
        fitting = (name for name in self._names if name.lower().startswith(lower))
        for name in islice(fitting, _MAX_OFFERED):
            yield Completion(name, start_position=-len(word))
        upper = word.upper()
        for keyword in self._keywords:
            if keyword.upper().startswith(upper):
                text = keyword.lower() if word.islower() and keyword.isupper() else keyword
                yield Completion(text, start_position=-len(word))

    def _read_names(self) -> None:
        seen: dict[str, None] = {}
        for query in _NAME_QUERIES:
            seen.update(dict.fromkeys(self._backend.query_names(query)))
            self._names = list(seen)
