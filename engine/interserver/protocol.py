"""The protocol by which replicas fetch parts: requests, responses and the manifest line.

``GET /part?endpoint=<replica znode path>&part=<name>`` over persistent connections, with basic authentication if
credentials are set. The response is one line of JSON, ``{"version": 1, "files": [{"name": …, "size": bytes}, …]}``, a
line feed, and the bytes of the files one after the other in that order. The receiver checks every file against the
part's own checksums file, so a cut or altered response is never taken for a part.

``&part=`` may be repeated. The response is then a sequence of such pieces, one for each requested part that exists;
each names its part (``"part": …`` in its line). A server that does not know this sends the first part only.

``GET /hashes?endpoint=…&part=…``, with one ``part`` or several, returns JSON: part name → content hash, for the parts
that are active on the replica. A server that does not know this returns 404.

``GET /copies?endpoint=…&source=<replica>&transaction=<staging>&copy=<place>/<part>/<content hash>``, with one ``copy``
or several, has the replica of the endpoint fetch parts that another one has staged for a batch of a link. A server that
does not know this returns 404.

Errors have a status of 400 or more, ``X-ClickHouse-Exception-Code`` and the message as text.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.common.safe_names import is_plain_file_name

PROTOCOL_VERSION = 1
CHUNK_BYTES = 1024 * 1024
EXCEPTION_CODE_HEADER = "X-ClickHouse-Exception-Code"


@dataclass(frozen=True)
class Manifest:
    """The files of a part as (name, size in bytes), in the order they are sent."""

    files: tuple[tuple[str, int], ...]
    part: str = ""
    """The part's name; empty means the first requested part."""

    @property
    def size(self) -> int:
        """The total size of the files in bytes."""
        return sum(size for _, size in self.files)

    def to_line(self) -> bytes:
        """Encodes the manifest as one line of JSON."""
        files = [{"name": name, "size": size} for name, size in self.files]
        content = {"version": PROTOCOL_VERSION, "part": self.part, "files": files}
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Manifest:
        """Decodes a manifest. Raises ``ValueError`` for another version or unsafe file names."""
        content = json.loads(line)
        if content.get("version") != PROTOCOL_VERSION:
            raise ValueError(f"interserver protocol version {content.get('version')} is not {PROTOCOL_VERSION}")
        files = tuple((str(entry["name"]), int(entry["size"])) for entry in content["files"])
        for name, _ in files:
            if not is_plain_file_name(name):
                raise ValueError(f"unacceptable file name {name!r}")
        return cls(files, str(content.get("part", "")))


@dataclass(frozen=True, slots=True)
class StagedCopy:
    """A part that a replica has staged, and another one shall stage too."""

    place: str
    part: PartName
    content_hash: str

    def __str__(self) -> str:
        return f"{self.place}/{self.part}/{self.content_hash}"

    @classmethod
    def parse(cls, text: str) -> StagedCopy:
        """Parses the text of a request. Raises 36 (BAD_ARGUMENTS)."""
        place, _, rest = text.partition("/")
        part, _, content_hash = rest.partition("/")
        name = PartName.try_parse(part)
        if not place or name is None or not content_hash.isalnum():
            raise UserError("BAD_ARGUMENTS", f"{text[:200]!r} is not <place>/<part>/<content hash>")
        return cls(place, name, content_hash)


def basic_authorization(credentials: tuple[str, str]) -> str:
    """Returns the ``Authorization`` header for (user, password)."""
    return f"Basic {base64.b64encode(':'.join(credentials).encode()).decode()}"
