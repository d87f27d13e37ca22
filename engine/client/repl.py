"""The interactive client: statements end with ``;``, or with ``\\G`` for the Vertical format.

Enter runs a complete statement and otherwise breaks the line. Up and down walk the history by prefix, Ctrl-R searches
it, Ctrl-C drops the typed text or cancels the running query, Ctrl-D leaves.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition, completion_is_selected, is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from engine.client.completion import SqlCompleter
from engine.client.script import is_complete_statement, split_script
from engine.client.script_runner import ScriptRunner, show_error
from parts.common.errors import CancelledError, PandoError

_LEAVE = ("exit", "quit", "\\q", "exit;", "quit;", ":q")
_HELP = """\
  SELECT …;        run a statement; it may take several lines
  SELECT …\\G       show each row as a block
  up, Ctrl-R       walk and search the history
  Tab              complete keywords and names
  Ctrl-C           cancel the running query
  exit, Ctrl-D     leave
"""


class Repl:
    """The prompt: reads statements from the terminal and runs them."""

    def __init__(self, runner: ScriptRunner, greeting: str) -> None:
        self._runner = runner
        self._greeting = greeting
        self._completer = SqlCompleter(runner.backend)

    def run(self) -> int:
        """Runs until the user leaves. Returns 0."""
        click.echo(f"{self._greeting}\nEnd statements with ; and leave with exit. help shows more.\n")
        self._completer.refresh()
        session: PromptSession[str] = PromptSession(
            multiline=True,
            history=_make_history(),
            enable_history_search=True,
            auto_suggest=AutoSuggestFromHistory(),
            completer=ThreadedCompleter(self._completer),
            complete_while_typing=False,
            key_bindings=_make_key_bindings(),
            lexer=PygmentsLexer(SqlLexer),
            prompt_continuation=lambda width, *_: FormattedText([("class:continuation", "-> ".rjust(width))]),
        )
        while True:
            try:
                prompt = FormattedText([("bold", f"{self._runner.backend.database}"), ("", " > ")])
                text = session.prompt(prompt)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            word = text.strip().lower()
            if word in _LEAVE:
                return 0
            if word.rstrip(";") in ("help", "?"):
                click.echo(_HELP)
            elif word:
                self._execute(text)

    def _execute(self, text: str) -> None:
        try:
            for statement in split_script(text):
                with _suppress_echo():
                    self._runner.run(statement)
                self._completer.refresh_after(statement.text)
        except CancelledError as error:
            show_error(error)
            click.echo()
        except PandoError as error:
            click.echo()
            show_error(error)
            click.echo()
        except KeyboardInterrupt:
            click.echo()


@contextmanager
def _suppress_echo() -> Iterator[None]:
    """Turns off the terminal's echo, so that text typed during a query does not mix with its output."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield
        return
    quiet = list(before)
    quiet[3] = before[3] & ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _make_history() -> History:
    """Returns the history: in ``$PANDO_HISTORY``, the home directory, or in memory if not writable."""
    file = Path(os.environ.get("PANDO_HISTORY") or Path.home() / ".pando_history")
    try:
        file.touch(mode=0o600, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def _make_key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @Condition
    def is_whole() -> bool:
        text = get_app().current_buffer.text
        return not text.strip() or text.strip().lower() in (*_LEAVE, "help", "?") or is_complete_statement(text)

    @bindings.add("enter", filter=is_whole & ~completion_is_selected & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings
