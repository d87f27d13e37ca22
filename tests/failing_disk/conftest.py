"""Fixtures."""

from tests.engine.conftest import local

__all__ = ["local"]
