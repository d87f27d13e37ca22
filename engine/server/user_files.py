"""Files that statements read and write: those below one directory (``user_files_path``), no others.

Invariants:

- A path is resolved, with its links, before it is checked; one that then lies outside is refused (291). The resolved
  path is opened from the root down without following links, so that nobody can swap the file after the check.
- Only regular files are opened: reading a pipe or a device could block the server or have effects.
- A file is written under a temporary name, synced, and then renamed: readers see all of it or nothing. It does not use
  ``parts.format.durable_files``, which knows files by path; here only descriptors of directories are safe.
"""

from __future__ import annotations

import builtins
import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import xxhash

from parts.common.errors import UserError, convert_resource_error
from parts.format.hashed_file import make_directories, sync_descriptor

TEMPORARY_FILE_PREFIX = ".tmp-"
"""Prefix of the names of unfinished files. Patterns do not match them."""
_MOST_FOUND = 100_000
_WILD = re.compile(r"[*?{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_NUMBERS = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_MOST_PATTERNS = 10_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HASHED_BYTES = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True)
class UserFile:
    """An existing file; ``path`` is resolved."""

    path: Path
    size: int
    _descriptor: Callable[[], int] = field(repr=False)

    def open(self) -> BinaryIO:
        """Opens the file for reading."""
        return os.fdopen(self._descriptor(), "rb")

    def hash(self) -> str:
        """Returns the XXH3-128 of the bytes, in hexadecimal."""
        hasher = xxhash.xxh3_128()
        with self.open() as file:
            while data := file.read(_HASHED_BYTES):
                hasher.update(data)
        return hasher.hexdigest()


class UserFileWriter:
    """A file that is being written; ``bytes`` is its size so far."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._hasher = xxhash.xxh3_128()
        self.bytes = 0

    def write(self, data: builtins.bytes) -> None:
        """Appends bytes."""
        self._hasher.update(data)
        self.bytes += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    @property
    def hash(self) -> str:
        """The XXH3-128 of the bytes written so far, in hexadecimal."""
        return self._hasher.hexdigest()


class UserFiles:
    """The files below ``root``, or, unless ``is_confined``, all files of the machine.

    Paths are relative to ``root``.
    """

    def __init__(self, root: Path, *, is_confined: bool = True) -> None:
        self._given = root.absolute()
        self._is_confined = is_confined

    @property
    def _root(self) -> str:
        return os.path.realpath(self._given)

    def find(self, path: str) -> list[UserFile]:
        """Returns the file of that name, or the sorted matches of a pattern.

        Patterns have ``*``, ``?``, ``{a,b}`` and ``{1..9}``; they skip directories and may find nothing. Raises 107
        (FILE_DOESNT_EXIST) for a missing file, and 291 (DATABASE_ACCESS_DENIED) for one outside the root.
        """
        if not _WILD.search(path):
            return [self._find_file(path)]
        return [self._find_file(found) for found in sorted(self._find_matches(path))]

    def resolve_path(self, path: str) -> Path:
        """Returns the resolved path.

        Raises 291 (DATABASE_ACCESS_DENIED) for one outside the root, 36 (BAD_ARGUMENTS) for text that is no path.
        """
        real = self._resolve_inside(self._make_absolute(path), path)
        if real == self._root:
            raise UserError("CANNOT_OPEN_FILE", f"{path!r} is not a file")
        return Path(real)

    def _resolve_inside(self, absolute: str, path: str) -> str:
        """Returns the resolved path. Raises 291 if it lies outside.

        The error is the same whether that file exists or not, so that nobody can probe for it.
        """
        real = os.path.realpath(absolute)
        if self._is_confined and os.path.commonpath([real, self._root]) != self._root:
            raise UserError("DATABASE_ACCESS_DENIED", f"File {path!r} is not inside {str(self._given)!r}")
        return real

    def _make_absolute(self, path: str) -> str:
        try:
            is_path = bool(path) and b"\0" not in os.fsencode(path)
        except UnicodeEncodeError:
            is_path = False
        if not is_path:
            raise UserError("BAD_ARGUMENTS", f"{path!r} is not the path of a file")
        return os.path.join(self._given, path)

    def _find_matches(self, path: str) -> set[str]:
        """Returns the existing files that match a pattern."""
        if "**" in path:
            raise UserError("NOT_IMPLEMENTED", f"'**' in the path {path!r} is not supported: name the directories")
        found = {
            file for pattern in _expand_braces(self._make_absolute(path)) for file in self._walk_pattern(pattern, path)
        }
        return {
            file
            for file in found
            if os.path.exists(real := self._resolve_inside(file, path)) and not os.path.isdir(real)
        }

    def _walk_pattern(self, pattern: str, path: str) -> list[str]:
        found = ["/"]
        for part in (part for part in pattern.split("/") if part):
            if "*" not in part and "?" not in part:
                found = [os.path.join(directory, part) for directory in found]
                continue
            expression = re.compile(fnmatch.translate(part.replace("[", "[[]")))
            listed = [
                (directory, _list_names(self._resolve_inside(directory, path), expression)) for directory in found
            ]
            found = [os.path.join(directory, name) for directory, names in listed for name in names]
            if len(found) > _MOST_FOUND:
                raise UserError("BAD_ARGUMENTS", f"The path {path!r} means more than {_MOST_FOUND} files")
        return found

    def _find_file(self, path: str) -> UserFile:
        real = self.resolve_path(path)
        descriptor = self._open(real, path)
        try:
            return UserFile(real, os.fstat(descriptor).st_size, partial(self._open, real, path))
        finally:
            os.close(descriptor)

    def _open(self, real: Path, path: str) -> int:
        with _translate_errors(path), self._open_directory(real.parent) as directory:
            descriptor = os.open(real.name, _READ, dir_fd=directory)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UserError("CANNOT_OPEN_FILE", f"{path!r} is not a file")
        return descriptor

    @contextmanager
    def _open_directory(self, path: Path, *, makes: bool = False) -> Iterator[int]:
        """Gives a descriptor of the directory, whose path is resolved."""
        base = self._root if self._is_confined else "/"
        if makes:
            make_directories(Path(base))
        descriptor = os.open(base, _DIRECTORY)
        try:
            for part in path.relative_to(base).parts:
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                        sync_descriptor(descriptor)
                following = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = following
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def create_file(self, path: str, name: str, *, replaces: bool = False) -> Iterator[UserFileWriter]:
        """Creates a file with its directories; it appears when the block ends without an error.

        ``name`` must be unique. Raises 641 (CANNOT_APPEND_TO_FILE) if the file exists, unless it ``replaces`` it.
        """
        real = self.resolve_path(path)
        if not replaces and os.path.lexists(real):
            raise _make_exists_error(path)
        temporary = f"{TEMPORARY_FILE_PREFIX}{name}"
        with _translate_errors(path), self._open_directory(real.parent, makes=True) as directory:
            descriptor = os.open(temporary, _WRITE, 0o644, dir_fd=directory)
            try:
                try:
                    yield UserFileWriter(descriptor)
                    sync_descriptor(descriptor)
                finally:
                    os.close(descriptor)
                _give_name(temporary, real.name, directory, path, replaces=replaces)
                sync_descriptor(directory)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)

    def publish_directory(
        self, source: str, target: str, sizes: Mapping[str, int], note: str, content: builtins.bytes
    ) -> None:
        """Renames a directory in one step, once it has exactly the named files with the given sizes.

        Other files are deleted. ``note`` is the name of one more file, with ``content``. Raises 107 (FILE_DOESNT_EXIST)
        for a file that is missing or of another size, 641 (CANNOT_APPEND_TO_FILE) if ``target`` exists.
        """
        directory, named = self.resolve_path(source), self.resolve_path(target)
        if os.path.lexists(named):
            raise _make_exists_error(target)
        for name, size in sizes.items():
            found = self._find_file(f"{source}/{name}").size
            if found != size:
                raise UserError("FILE_DOESNT_EXIST", f"File {name!r} of {source!r} has {found} bytes, not {size}")
        self.remove(source, keeps=sizes)
        with self.create_file(f"{source}/{note}", note) as file:
            file.write(content)
        with _translate_errors(target), self._open_directory(directory.parent) as parent:
            try:
                os.rename(directory.name, named.name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError as error:
                raise _make_exists_error(target) if error.errno in (errno.ENOTEMPTY, errno.EEXIST) else error from None
            sync_descriptor(parent)

    def directories(self, name: re.Pattern[str]) -> Iterator[tuple[str, float, list[str]]]:
        """Yields the directories whose name matches: path below the root, time of the last change, content.

        Yields nothing if the files are not confined, because a search of the whole machine would take long.
        """
        walked = os.walk(self._root) if self._is_confined else iter(())
        for path, directories, files in walked:
            if name.fullmatch(os.path.basename(path)):
                inside = [*directories, *files]
                directories.clear()
                with suppress(OSError):  # it was deleted, or is being renamed now
                    changed = max(os.lstat(os.path.join(path, item)).st_mtime for item in ("", *inside))
                    yield os.path.relpath(path, self._root), changed, inside

    def remove(self, path: str, keeps: Iterable[str] = ()) -> None:
        """Deletes a directory's files except ``keeps``; with nothing to keep, also the directory."""
        real, kept = self.resolve_path(path), set(keeps)
        with suppress(FileNotFoundError), self._open_directory(real) as directory:
            for name in os.listdir(directory):
                if name not in kept:
                    os.unlink(name, dir_fd=directory)
        if not kept:
            with suppress(FileNotFoundError), self._open_directory(real.parent) as parent:
                os.rmdir(real.name, dir_fd=parent)


def _give_name(temporary: str, name: str, directory: int, path: str, *, replaces: bool) -> None:
    """Gives a finished file its name. Of two writers of the same new file the second gets an error."""
    if not replaces:
        try:
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            return
        except FileExistsError:
            raise _make_exists_error(path) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:  # file systems without links
                raise
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Converts the system's errors to ones that name the file. Raises 107, 243 or 76."""
    try:
        yield
    except FileNotFoundError:
        raise UserError("FILE_DOESNT_EXIST", f"File {path!r} doesn't exist") from None
    except OSError as error:
        known = convert_resource_error(error)
        if known is not error:
            raise known from None
        raise UserError("CANNOT_OPEN_FILE", f"Cannot open file {path!r}: {error.strerror}") from None


def _make_exists_error(path: str) -> UserError:
    return UserError(
        "CANNOT_APPEND_TO_FILE",
        f"{path!r} exists already, and files are only written whole: give another name, or set "
        "engine_file_truncate_on_insert = 1 to write a file anew",
    )


# -- patterns ----------------------------------------------------------------------------------------------------------


def _list_names(directory: str, expression: re.Pattern[str]) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [name for name in names if expression.match(name) and not name.startswith(TEMPORARY_FILE_PREFIX)]


def _expand_braces(pattern: str) -> list[str]:
    """Returns the patterns without braces, one per combination. Braces do not nest."""
    patterns = [""]
    for position, text in enumerate(_BRACES.split(pattern)):
        choices = _list_choices(text) if position % 2 else [text]
        if len(patterns) * len(choices) > _MOST_PATTERNS:
            raise UserError("BAD_ARGUMENTS", f"The braces of {pattern!r} mean more than {_MOST_PATTERNS} paths")
        patterns = [before + choice for before in patterns for choice in choices]
    return patterns


def _list_choices(text: str) -> list[str]:
    numbers = _NUMBERS.fullmatch(text)
    if numbers is None:
        return text.split(",")
    first, last = sorted(int(number) for number in numbers.groups())
    width = len(numbers.group(1)) if numbers.group(1).startswith("0") else 0
    return [str(number).zfill(width) for number in range(first, min(last, first + _MOST_PATTERNS) + 1)]
