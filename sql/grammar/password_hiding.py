"""Hides passwords in statement texts before they reach lists, logs, errors or definitions.

Passwords stand in ``remote('addresses', db, table | db.table | function(…), 'user', 'password'[, sharding_key])``. The
text is not parsed: it may have been cut, or be no statement at all.

Source: ClickHouse documentation, "Table functions", of which the server's logs show ``[HIDDEN]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECE = re.compile(
    r"'(?:[^'\\]++|\\.|'')*+'?+|`(?:[^`\\]++|\\.|``)*+`?+|\"(?:[^\"\\]++|\\.|\"\")*+\"?+"
    r"|(?P<comment>/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+|--[^\n]*+|#[ !][^\n]*+)"
    r"|(?P<call>\bremote(?:Secure)?\s*+\()"
    r"|\w++|[^\w'`\"()\[\]{},/#-]++|.",
    re.DOTALL,
)
_HIDDEN_TEXT = "'[HIDDEN]'"


@dataclass(slots=True)
class _Brackets:
    """The state of the scan inside one pair of brackets. ``argument`` is the argument's number, from 0."""

    is_call: bool = False
    argument: int = 0
    is_table_one: bool = False
    """The table is one argument, ``db.table`` or ``function(…)``, not two."""

    @property
    def is_behind_user(self) -> bool:
        """Returns whether the current argument comes after the user, so that a string is a password."""
        return self.is_call and self.argument >= (3 if self.is_table_one else 4)


def hide_passwords(text: str) -> str:
    """Returns the text with ``'[HIDDEN]'`` in place of each password.

    A password that is cut off by the end of the text is hidden too.
    """
    if "remote" not in text:
        return text
    shown, position = [], 0
    for start, end in _find_passwords(text):
        shown += [text[position:start], _HIDDEN_TEXT]
        position = end
    return "".join([*shown, text[position:]])


def _find_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each password. Every piece of the text is looked at once."""
    outer: list[_Brackets] = []
    inner = _Brackets()
    for piece in _PIECE.finditer(text):
        what = piece.group()
        if piece.lastgroup == "comment":
            continue
        if piece.lastgroup == "call" or what in "([{":
            inner.is_table_one |= inner.argument == 1
            outer.append(inner)
            inner = _Brackets(is_call=piece.lastgroup == "call")
        elif what in ")]}":
            inner = outer.pop() if outer else _Brackets()
        elif what == ",":
            inner.argument += 1
        elif what[0] == "'" and inner.is_behind_user:
            yield piece.span()
        elif inner.argument == 1 and "." in what:
            inner.is_table_one = True
