"""The file ``checksums``: size and XXH3-128 of every file of a part, and the hash of its rows.

The file is one JSON object, a newline, the XXH3-128 of the bytes before it as 32 hexadecimal digits, and a newline.
``version`` is the part's major version, ``minor`` its minor one (absent: 0); see ``parts.format.part_files``.
``content_hash`` is ``parts.format.content_hash`` over the part's rows: the same for every codec, part name and part
type. ``digests`` are the columns' digests, from which a part that shares files with this one computes its content hash.
Compact and older parts have none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import xxhash

from parts.common.errors import CorruptionError, UserError
from parts.format.file_names import CHECKSUMS, FIRST_VERSION, MAJOR_VERSION


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """Size and hash of one file."""

    size: int
    hash: str
    """XXH3-128 of the whole file, 32 hexadecimal digits."""


@dataclass(frozen=True)
class Checksums:
    """The checksums of a part. ``files`` has every file except ``checksums`` itself."""

    files: dict[str, FileChecksum]
    content_hash: str
    uncompressed_bytes: int
    column_bytes: dict[str, tuple[int, int]]
    """Column → (stored bytes, uncompressed bytes)."""
    version: tuple[int, int] = FIRST_VERSION
    digests: Mapping[str, str] = field(default_factory=dict)
    """Column → the digest of ``parts.format.content_hash``, 32 hexadecimal digits."""

    def encode(self) -> bytes:
        """Returns the file's bytes."""
        major, minor = self.version
        body = {
            "version": major,
            **({"minor": minor} if minor else {}),
            "content_hash": self.content_hash,
            "uncompressed_bytes": self.uncompressed_bytes,
            "columns": {name: list(sizes) for name, sizes in self.column_bytes.items()},
            **({"digests": dict(self.digests)} if self.digests else {}),
            "files": {name: [self.files[name].size, self.files[name].hash] for name in sorted(self.files)},
        }
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        return text + xxhash.xxh3_128_hexdigest(text).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, part: str) -> Checksums:
        """Parses the file.

        Raises ``CorruptionError``, ``UserError`` 287 (UNKNOWN_FORMAT_VERSION) for a newer major version.
        """
        text, digest = data[:-33], data[-33:]
        if xxhash.xxh3_128_hexdigest(text).encode() + b"\n" != digest:
            raise CorruptionError("Checksum of the checksums doesn't match", part=part, file=CHECKSUMS, offset=0)
        try:
            body = json.loads(text)
            version = (int(body["version"]), int(body.get("minor", 0)))
            if min(version) < 0 or not version[0]:
                raise ValueError(f"format version {version[0]}.{version[1]} never was")
            check_major_version(version[0], part)
            files = {name: FileChecksum(int(size), str(hash_)) for name, (size, hash_) in body["files"].items()}
            columns = {name: (int(stored), int(raw)) for name, (stored, raw) in body["columns"].items()}
            digests = {name: str(digest) for name, digest in body.get("digests", {}).items()}
            return cls(files, str(body["content_hash"]), int(body["uncompressed_bytes"]), columns, version, digests)
        except (ValueError, KeyError, TypeError) as error:
            message = f"Checksums cannot be read ({error})"
            raise CorruptionError(message, part=part, file=CHECKSUMS, offset=0, name="CORRUPTED_DATA") from error


def check_major_version(major: int, part: str) -> None:
    """Raises ``UserError`` 287 (UNKNOWN_FORMAT_VERSION) for a version this server does not know."""
    if major > MAJOR_VERSION:
        raise UserError(
            "UNKNOWN_FORMAT_VERSION",
            f"Part {part} is of format version {major}; this server reads versions up to {MAJOR_VERSION}. The part was "
            "left as it is: start a server of the version that wrote it, or a newer one",
        )


def check_file_bytes(data: bytes, name: str, checksums: Checksums, part: str) -> None:
    """Compares a small file's bytes with its checksum. Raises ``CorruptionError``."""
    expected = checksums.files.get(name)
    if expected is None:
        raise CorruptionError("File is not in the checksums", part=part, file=name, name="UNEXPECTED_FILE_IN_DATA_PART")
    if len(data) != expected.size or xxhash.xxh3_128_hexdigest(data) != expected.hash:
        message = f"Checksum doesn't match: {len(data)} bytes read, {expected.size} written"
        raise CorruptionError(message, part=part, file=name, offset=0)
