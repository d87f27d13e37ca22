"""The base class of data types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError

PrecisionColumns = tuple[int | None, int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class DataType:
    """Base of all types. Equality is by structure; ``str(type)`` is the canonical ClickHouse name."""

    is_composite: ClassVar[bool] = False
    """Whether it is an Array, Map or Tuple."""
    may_be_nullable: ClassVar[bool] = True
    """Whether ``Nullable`` takes the type."""
    may_be_low_cardinality: ClassVar[bool] = True
    """Whether ``LowCardinality`` takes the type."""
    may_be_map_key: ClassVar[bool] = True
    """Whether keys of a ``Map`` may have the type."""
    is_partition_number: ClassVar[bool] = False
    """Whether ids of partitions show the value as a number, and do not hash it."""

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

    @property
    def omitted_value(self) -> object:
        """The value of a column without DEFAULT that an INSERT does not name."""
        return self.default

    @property
    def memory_width_bytes(self) -> int | None:
        """The bytes of a value in ClickHouse's memory; ``None`` for types without one width."""
        return None

    @property
    def codec_width_bytes(self) -> int | None:
        """The bytes of a value for ``CODEC(Delta)``; ``None`` for types that it does not take."""
        return None

    @property
    def precision_columns(self) -> PrecisionColumns:
        """Returns the lengths and precisions that ``system.columns`` tells.

        They are octet length, numeric precision, its radix, scale, precision of times.
        """
        return None, None, None, None, None

    def partition_text(self, value: pa.Scalar) -> str:
        """Returns the value as the ids of partitions show it, if it is a number there."""
        raise NotImplementedError

    def partition_field(self, value: pa.Scalar) -> bytes:
        """Returns the bytes of the value of which the hash of a partition is made.

        ``parts.blocks.partition_ids`` makes the hash. Raises ``UserError`` 48 for types that it does not take.
        """
        raise UserError("NOT_IMPLEMENTED", f"A partition key of type {self} is not supported")

    def __str__(self) -> str:
        return self.name
