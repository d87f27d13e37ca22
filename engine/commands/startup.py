"""Keeps processes of the engine light."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _WithoutPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of this process", name="pandas")
        return None


def leave_out_pandas() -> None:
    """pyarrow imports pandas, if installed, to see whether a list is a DataFrame: 0.4 s and 40 MB for nothing."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())
