"""What a disk does to a part's file, and tables in which every damage has a part of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parts.common.part_name import PartName

COLUMNS = "p UInt32, k UInt64, s String, d DateTime"
DEFINITION = "PARTITION BY p ORDER BY k TTL d + INTERVAL 100 YEAR"
INDEX = "INDEX i s TYPE minmax GRANULARITY 1"
ROWS = 40
KINDS: Mapping[str, str] = {
    "wide": "min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0",
    "compact": "min_bytes_for_full_part_storage = 0, min_bytes_for_wide_part = 1000000000",
    "packed": "min_bytes_for_wide_part = 1000000000",
}
"""Kind of part → the settings of a table that writes such."""


def _missing(path: Path) -> None:
    path.unlink()


def _truncated(path: Path) -> None:
    """As a copy that broke off: other bytes elsewhere, so that nobody's mapping ends within a page."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _directory(path: Path) -> None:
    """Reading it is an error of the system's, as on a disk that fails."""
    path.unlink()
    path.mkdir()


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "missing": _missing,
    "truncated": _truncated,
    "zeroed": _zeroed,
    "flipped": _flipped,
    "unreadable": _directory,
}


_LIKE_OTHERS = ("k.bin", "d.bin", "uuid")


@dataclass(frozen=True)
class Damage:
    """One file of the one part of a partition."""

    partition: int
    name: str
    file: str

    def __str__(self) -> str:
        return f"{self.file} {self.name}"

    def hurt(self, table: Path) -> str:
        """Returns the part."""
        part = max(table.glob(f"{self.partition}_*"), key=lambda path: PartName.parse(path.name))
        DAMAGES[self.name](part / self.file)
        return part.name


def damages_of(files: list[str]) -> list[Damage]:
    """Every damage of every file but those that are read as another is; each in a partition of its own."""
    pairs = itertools.product((file for file in files if file not in _LIKE_OTHERS), DAMAGES)
    return [Damage(number, name, file) for number, (file, name) in enumerate(pairs)]


def create(engine: str, kind: str, table: str = "u") -> str:
    return f"CREATE TABLE {table} ({COLUMNS}, {INDEX}) ENGINE = {engine} {DEFINITION} SETTINGS {KINDS[kind]}"


def insert(partitions: int, table: str = "u") -> Iterator[str]:
    """A part for each partition, by one INSERT."""
    yield (
        f"INSERT INTO {table} SELECT intDiv(number, {ROWS}), number % {ROWS}, concat('s', toString(number)), "
        f"toDateTime('2024-01-01 00:00:00') + number FROM numbers({partitions * ROWS}) "
        "SETTINGS max_partitions_per_insert_block = 0"
    )


def query(partition: int | None = None, table: str = "u") -> str:
    """Needs every column, the index and the key of a partition's part, or of all."""
    where = "1" if partition is None else f"p = {partition}"
    return (
        f"SELECT p, count(), sum(k), min(s), max(d) FROM {table} "
        f"WHERE {where} AND k >= 1 AND s >= 's' GROUP BY p ORDER BY p"
    )
