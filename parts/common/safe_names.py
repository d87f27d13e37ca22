"""Check and encode users' names that become files, directories and znodes.

Everything a statement, a request, a configuration or another server names passes one of these functions before it
becomes a part of a path. Nothing is ever cleaned up: a name is taken whole or refused.

On disk a database or a table has its name percent-encoded, also dots. So no name means another directory (``.``,
``..``) or looks like a file of the server's own (``x.sql``, ``x.tmp``, ``rename_in_progress``). Directories written
before dots were encoded keep their spelling (:func:`encode_file_name_keeping_dots`).
"""

from __future__ import annotations

import re
from urllib.parse import quote

from parts.common.errors import UserError

_LONGEST_FILE_NAME = 255
"""Bytes, on every file system in use."""
_LONGEST_SUFFIX = len(".sql.tmp")
_LONGEST_ZNODE_PATH = 4096
"""Bytes. Far below the packet (1 MiB) beyond which ZooKeeper cuts the connection."""
_RESERVED = frozenset({"rename_in_progress"})
_PARTITION_ID = re.compile(r"[A-Za-z0-9-]+\Z")
# What ZooKeeper itself refuses in a path.
_NO_ZNODE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def check_identifier(what: str, name: str) -> None:
    """Checks a name. Raises 62 for an empty one, 36 for one with NUL or surrogates.

    ``what`` is ``database``, ``table`` or ``column``.
    """
    if not name:
        raise UserError("SYNTAX_ERROR", f"The name of a {what} must not be empty")
    if "\0" in name or _has_surrogate(name):
        raise UserError("BAD_ARGUMENTS", f"The name of a {what} must be text without NUL, got {name!r}")


def check_file_name(what: str, name: str) -> None:
    """Checks a name that becomes a file. Raises as :func:`check_identifier`, and 69 if it is too long."""
    check_identifier(what, name)
    longest, length = _LONGEST_FILE_NAME - _LONGEST_SUFFIX, len(encode_file_name(name))
    if length > longest:
        raise UserError(
            "ARGUMENT_OUT_OF_BOUND",
            f"The name of a {what} is too long for a file: {length} bytes after encoding, at most {longest}: {name!r}",
        )


def encode_file_name(name: str) -> str:
    """Returns the name as a file or directory name. ``urllib.parse.unquote`` decodes it."""
    stem = encode_file_name_keeping_dots(name).replace(".", "%2E")
    return f"%{ord(stem[0]):02X}{stem[1:]}" if stem in _RESERVED else stem


def encode_file_name_keeping_dots(name: str) -> str:
    """Returns the file name of earlier versions, which did not encode dots."""
    return quote(name, safe="")


def is_plain_file_name(name: str) -> bool:
    """Tells whether the name is one entry of a directory, and not ``.`` or ``..``."""
    return bool(name) and name not in (".", "..") and not re.search("[/\0]", name) and _fits_a_file(name)


def is_partition_id(text: str) -> bool:
    """Tells whether the text may be a partition id."""
    return bool(_PARTITION_ID.match(text)) and _fits_a_file(text)


def check_znode_path(what: str, path: str) -> None:
    """Checks an absolute path in ZooKeeper. Raises 36 (BAD_ARGUMENTS)."""
    problem = _znode_path_problem(path)
    if problem:
        raise UserError("BAD_ARGUMENTS", f"{what} {problem}, got {path[:200]!r}")


def is_znode_name(name: str) -> bool:
    """Tells whether the name may be one component of a ZooKeeper path, no longer than a file name."""
    return (
        bool(name) and name not in (".", "..") and "/" not in name and not _NO_ZNODE.search(name) and _fits_a_file(name)
    )


def _znode_path_problem(path: str) -> str:
    if not path.startswith("/") or path.endswith("/"):
        return "must start with / and not end with it"
    if _NO_ZNODE.search(path):
        return "must have no control characters"
    if len(path.encode()) > _LONGEST_ZNODE_PATH:
        return f"must have at most {_LONGEST_ZNODE_PATH} bytes"
    components = path[1:].split("/")
    if any(component in ("", ".", "..") for component in components):
        return "must have no component that is empty, . or .."
    if components[0] == "zookeeper":
        return "must not lie in /zookeeper, which is ZooKeeper's own"
    return ""


def _fits_a_file(name: str) -> bool:
    return not _has_surrogate(name) and len(name.encode()) <= _LONGEST_FILE_NAME


def _has_surrogate(name: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in name)
