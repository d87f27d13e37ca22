"""An engine in this process, as in ``tests/engine``; one beside ClickHouse."""

from __future__ import annotations

from tests.engine.conftest import local
from tests.side_by_side import oracle, pando

__all__ = ["local", "oracle", "pando"]
