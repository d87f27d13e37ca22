"""Both engines, as in ``tests/skip_indexes``."""

from __future__ import annotations

from tests.skip_indexes.conftest import local, oracle

__all__ = ["local", "oracle"]
