"""Stores of small parts under a clock of their own."""

from __future__ import annotations

import pathlib
import uuid

from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.part_store import PartStore
from parts.write.part_writer import write_part
from tests.parts.generated import block_of, description_of

LIFETIME = 100

NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}

DESCRIPTION = description_of([("k", "Int64")], ("k",), old_parts_lifetime=LIFETIME, **NO_SYNC)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def new_store(path: pathlib.Path, clock: Clock | None = None) -> PartStore:
    return PartStore(path, DESCRIPTION, clock or Clock(), uuid.uuid4)


def add(store: PartStore, name: str, rows: int = 3) -> Part:
    directory = store.create_temporary("tmp_insert_")
    write_part(directory, block_of(DESCRIPTION, [(i,) for i in range(rows)]), DESCRIPTION, ())
    return store.add_preactive(directory, PartName.parse(name))


def add_active(store: PartStore, name: str) -> Part:
    part = add(store, name)
    store.commit(part)
    return part


def names(store: PartStore) -> list[str]:
    return [str(part.name) for part in store.list_active()]
