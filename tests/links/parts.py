"""Folders of small parts, and outboxes beside them."""

from __future__ import annotations

import os
from pathlib import Path

from engine.link_store.block_ages import BlockAges
from engine.link_store.outbox import Outbox
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.write.part_writer import write_part
from tests.parts.generated import block_of, description_of

DESCRIPTION = description_of([("k", "Int64"), ("s", "String")], ("k",), min_bytes_for_full_part_storage=0)
GIB = 1024**3


class Surroundings:
    """Clocks and disk."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.free = 100 * GIB

    def now_ms(self, age_seconds: float = 0) -> int:
        return int((self.now - age_seconds) * 1000)

    def outbox(self, folder: Path) -> Outbox:
        ages = BlockAges(lambda: self.now)
        ages.note_time(self.now_ms())
        outbox = Outbox(folder, ages, lambda path: self.free)
        outbox.load()
        return outbox


def make_part(table: Path, name: str, rows: int = 3) -> Path:
    """A part of some files in the table's folder."""
    folder = table / name
    folder.mkdir(parents=True)
    write_part(folder, block_of(DESCRIPTION, [(n, f"row {n} of {name}") for n in range(rows)]), DESCRIPTION, ())
    return folder


def link_part(template: Path, folder: Path) -> Path:
    """Another part of the same files: faster than writing one."""
    folder.mkdir(parents=True)
    for file in template.iterdir():
        os.link(file, folder / file.name)
    return folder


def name(text: str) -> PartName:
    return PartName.parse(text)


def verify(folder: Path, part: PartName) -> None:
    open_part(folder, name=part).verify()
