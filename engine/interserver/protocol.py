"""What crosses the wire when a replica fetches a part.

``GET /part?endpoint=<replica znode path>&part=<name>`` over connections that stay open, basic authentication when
credentials are set. The answer is one line of JSON, ``{"version": 1, "files": [{"name": …, "size": bytes}, …]}``, a
line feed, and the files' bytes one behind the other in that order. The receiver checks every file against the part's
own checksums file, so a cut or altered answer is never taken for a part.

``&part=`` may stand there several times: the answer is then one such piece behind the other, each naming its part
(``"part": …`` in its line), of those that are there. A server that does not know this answers the first alone.

``GET /hashes?endpoint=…&part=…``, with one ``part`` or several, is answered by JSON: part name → content hash, of those
that are active on the replica. A server that does not know this answers 404.

Errors are a status of 400 or more with ``X-ClickHouse-Exception-Code`` and the message as text.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from parts.common.safe_names import is_plain_file_name

PROTOCOL_VERSION = 1
CHUNK_BYTES = 1024 * 1024
EXCEPTION_CODE_HEADER = "X-ClickHouse-Exception-Code"


@dataclass(frozen=True)
class Manifest:
    """The files of a part: (name, size in bytes), in the order they are sent."""

    files: tuple[tuple[str, int], ...]
    part: str = ""
    """Empty: the first that was asked for."""

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)

    def to_line(self) -> bytes:
        files = [{"name": name, "size": size} for name, size in self.files]
        content = {"version": PROTOCOL_VERSION, "part": self.part, "files": files}
        return json.dumps(content, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Manifest:
        """Raises ``ValueError`` for anything that is not a manifest of this version with plain file names."""
        content = json.loads(line)
        if content.get("version") != PROTOCOL_VERSION:
            raise ValueError(f"interserver protocol version {content.get('version')} is not {PROTOCOL_VERSION}")
        files = tuple((str(entry["name"]), int(entry["size"])) for entry in content["files"])
        for name, _ in files:
            if not is_plain_file_name(name):
                raise ValueError(f"unacceptable file name {name!r}")
        return cls(files, str(content.get("part", "")))


def basic_authorization(credentials: tuple[str, str]) -> str:
    """The ``Authorization`` header for (user, password)."""
    return f"Basic {base64.b64encode(':'.join(credentials).encode()).decode()}"
