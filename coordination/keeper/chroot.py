"""The prefix that a keeper puts before every path it sends and removes from every path it returns."""

from __future__ import annotations

from collections.abc import Iterator


class Chroot:
    """A path prefix: ``""``, or a path such as ``/pando``."""

    def __init__(self, prefix: str) -> None:
        stripped = prefix.strip("/")
        self.prefix = f"/{stripped}" if stripped else ""

    def __len__(self) -> int:
        return len(self.prefix)

    def add_prefix(self, path: str) -> str:
        """Returns the path with the prefix."""
        if not self.prefix:
            return path
        return self.prefix if path == "/" else self.prefix + path

    def strip_prefix(self, path: str) -> str:
        """Returns the path without the prefix."""
        return path[len(self.prefix) :] or "/" if self.prefix else path


def list_path_and_parents(path: str) -> Iterator[str]:
    """Yields ``/a``, ``/a/b``, ``/a/b/c``: the order in which nodes are created."""
    current = ""
    for name in filter(None, path.split("/")):
        current += "/" + name
        yield current
