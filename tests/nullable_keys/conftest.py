"""Both engines, as in ``tests/sql/pruning``."""

from __future__ import annotations

from tests.sql.pruning.conftest import local, oracle

__all__ = ["local", "oracle"]
