"""Contexts of statements for tests that read a system table of one simulated node."""

from __future__ import annotations

from typing import Any

from engine.queries.context import OwnerContext
from engine.queries.session import Session
from sql.settings.supported_settings import DEFAULT_SETTINGS


def make_owner_context(server: Any) -> OwnerContext:
    """Returns the context of a statement on a server, of which the table needs only some attributes."""
    return OwnerContext(server, Session(), DEFAULT_SETTINGS, query_id="")
