"""The prefix that a keeper puts before every path and takes away from every path it returns."""

from __future__ import annotations

from collections.abc import Iterator


class Chroot:
    """``prefix`` is ``""`` or a path such as ``/pando``."""

    def __init__(self, prefix: str) -> None:
        stripped = prefix.strip("/")
        self.prefix = f"/{stripped}" if stripped else ""

    def __len__(self) -> int:
        return len(self.prefix)

    def full(self, path: str) -> str:
        if not self.prefix:
            return path
        return self.prefix if path == "/" else self.prefix + path

    def stripped(self, path: str) -> str:
        return path[len(self.prefix) :] or "/" if self.prefix else path


def list_path_and_parents(path: str) -> Iterator[str]:
    """``/a``, ``/a/b``, ``/a/b/c``: in the order in which they are made."""
    current = ""
    for name in filter(None, path.split("/")):
        current += "/" + name
        yield current
