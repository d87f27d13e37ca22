"""An engine in this process, as in ``tests/engine``."""

from __future__ import annotations

from tests.engine.conftest import local

__all__ = ["local"]
