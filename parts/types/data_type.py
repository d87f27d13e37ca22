"""The base class of data types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class DataType:
    """Base of all types. Equality is by structure; ``str(type)`` is the canonical ClickHouse name."""

    @property
    def name(self) -> str:
        """The canonical ClickHouse name."""
        raise NotImplementedError

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type in which values are stored."""
        raise NotImplementedError

    @property
    def is_nullable(self) -> bool:
        """Whether values may be NULL."""
        return False

    @property
    def default(self) -> object:
        """The value of an omitted column, as a Python object that ``pa.scalar(default, self.arrow)`` accepts."""
        return 0

    def __str__(self) -> str:
        return self.name
