"""The record of what an execution of a scan reads: its parts with their sizes, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import zstandard

from engine.scan.slot_planning import Steps
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.read.part_reader import Part

_VERSION = 3
"""To be raised when parts are divided into slots by other rules: replicas must not share a scan then."""


@dataclass(frozen=True)
class RecordedPart:
    """A part's content, on which all replicas must agree, and the sizes by which it is divided."""

    content_hash: str
    granularity: int
    steps: list[int]


@dataclass(frozen=True)
class ScanRecord:
    """The parts of an execution, and the version of the definition under which it reads them."""

    parts: Mapping[PartName, RecordedPart]
    metadata_version: int
    is_settled: bool
    """Whether all blocks before those of the parts were decided (``OwnedTable.settled_snapshot``)."""


def encode_record(parts: Sequence[Part], steps: Steps, metadata_version: int, *, is_settled: bool) -> bytes:
    """Encodes the record of an execution that reads these parts."""
    items = [[str(part.name), part.content_hash, part.granularity, steps[part.name]] for part in parts]
    document = {"version": _VERSION, "definition": metadata_version, "parts": items, "is_settled": is_settled}
    return zstandard.compress(json.dumps(document, separators=(",", ":")).encode())


def decode_record(record: bytes) -> ScanRecord:
    """Decodes a record. Raises ``CorruptionError``."""
    try:
        document = json.loads(zstandard.decompress(record))
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']}, this server understands {_VERSION}")
        parts = {PartName.parse(name): RecordedPart(*others) for name, *others in document["parts"]}
        return ScanRecord(parts, int(document["definition"]), bool(document.get("is_settled")))
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise CorruptionError(f"Cannot read what a scan began with: {error}", name="CORRUPTED_DATA") from error
