"""What every data type says of itself."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class DataType:
    """Base of all types. Equality is by structure; ``str(type)`` is the canonical ClickHouse name."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def arrow(self) -> pa.DataType:
        raise NotImplementedError

    @property
    def is_nullable(self) -> bool:
        return False

    @property
    def default(self) -> object:
        """The value of an omitted column, as the Python object ``pa.scalar(default, self.arrow)`` accepts."""
        return 0

    def __str__(self) -> str:
        return self.name
