"""Names of the system databases and of the database of temporary tables; errors for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from parts.common.errors import UserError

SYSTEM_DATABASES = ("system", "information_schema", "INFORMATION_SCHEMA")
TEMPORARY_DATABASE = "_temporary_and_external_tables"
"""The database that holds the temporary tables of all sessions."""
_MAX_COMPARED = 1000


def make_unknown_table_error(database: str, name: str, known: Iterable[str]) -> UserError:
    """Returns the error for a table that does not exist, with similar names from ``known``."""
    hint = _suggest_names(name, known) or f"SHOW TABLES FROM {database} lists those of this server"
    return UserError("UNKNOWN_TABLE", f"Table {database}.{name} does not exist. {hint}")


def make_unknown_database_error(name: str, known: Iterable[str]) -> UserError:
    """Returns the error for a database that does not exist, with similar names from ``known``."""
    hint = _suggest_names(name, known) or "SHOW DATABASES lists those of this server"
    return UserError("UNKNOWN_DATABASE", f"Database {name} does not exist. {hint}")


def _suggest_names(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(islice(known, _MAX_COMPARED)), n=2)
    return f"Maybe you meant: {', '.join(close)}" if close else ""
