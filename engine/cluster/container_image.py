"""Makes the image of containers from this system: its Python, its Java, the libraries they load.

No registry is asked. The files keep their places, Pando and its packages lie in ``/opt/pando``. Nothing else is inside:
no shell, no package manager. The image runs on Linux of this machine's architecture.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from coordination.keeper.embedded_zookeeper import find_java
from engine.cluster.container_id import connect_engine, translated_errors
from engine.server.config import ConfigError

_PIECE_BYTES = 1 << 20
_HOME = PurePosixPath("/opt/pando")
_PACKAGES = _HOME / "packages"
_OWN_PACKAGES = ("engine", "coordination", "parts", "sql", "recovery")
_LEFT_OUT = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "lib2to3"}
_COMPILED_LATER = f"__import__('re').compile('{_PACKAGES}')"
_SERVER = "engine.cli, engine.commands.server, engine.engine, engine.front.http.http_server, kazoo.client, yaml"
_JAVA_FOLDERS = ("lib", "conf", "legal")
_ZOOKEEPER_JARS = re.compile(r"(zookeeper|log4j|slf4j|netty|metrics-core|snappy|commons-(io|cli)|jackson)-.*\.jar")
_SYSTEM_FILES = ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8", "/etc/ssl/certs/ca-certificates.crt")
_ACCOUNTS = {
    "/etc/passwd": "root:x:0:0:root:/tmp:/none\nnobody:x:65534:65534:nobody:/tmp:/none\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
}


@dataclass(frozen=True)
class Image:
    """An image that the engine has now."""

    id: str
    bytes: int


def make_image(tag: str) -> Image:
    """Makes the image from this system and gives it the tag, which an older one loses.

    Raises :class:`ConfigError`.
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError("An image is made from a Linux system; elsewhere build one and name it with --image")
    engine = connect_engine()
    python, java = os.path.realpath(sys.executable), os.path.realpath(find_java())
    changes = [
        f"ENV PYTHONPATH={_HOME}:{_PACKAGES} JAVA_HOME={Path(java).parent.parent} LANG=C.UTF-8 HOME=/tmp",
        f'ENTRYPOINT ["{python}", "-m", "engine.cli"]',
        "WORKDIR /tmp",
    ]
    repository, _, version = tag.partition(":")
    with tempfile.TemporaryFile() as archive:
        _write_archive(archive, _list_files(Path(python), Path(java)))
        archive.seek(0)
        with translated_errors(f"import the image {tag}"):
            pieces = iter(lambda: archive.read(_PIECE_BYTES), b"")  # the SDK sends a file's length and pieces, both
            engine.api.import_image(
                src=pieces, repository=repository, tag=version or "latest", changes=changes, stream_src=True
            )
            image = _compile(repository, version or "latest", python, changes)
    return Image(str(image.id), int(image.attrs["Size"]))


def _compile(repository: str, version: str, python: str, changes: Sequence[str]) -> Any:
    """Adds compiled modules to an image: without them every start of a container would compile them all."""
    code = f"import compileall; compileall.compile_dir({str(_HOME)!r}, quiet=2, rx={_COMPILED_LATER}); import {_SERVER}"
    container = connect_engine().containers.create(f"{repository}:{version}", ["-c", code], entrypoint=[python])
    try:
        container.start()
        status = container.wait()["StatusCode"]
        if status:
            raise ConfigError(f"Compiling in the image failed ({status}): {container.logs(tail=5).decode()}")
        return container.commit(repository, version, changes="\n".join([*changes, "CMD []"]))
    finally:
        container.remove(force=True)


def _list_files(python: Path, java: Path) -> dict[str, Path]:
    """Returns the files by their places in the image."""
    files: dict[str, Path] = {str(python): python, str(java): java}
    standard_library = Path(sysconfig.get_path("stdlib"))
    _add(files, _walk(standard_library), standard_library, PurePosixPath(standard_library))
    home = java.parent.parent
    for folder in _JAVA_FOLDERS:
        _add(files, _walk(home / folder), home, PurePosixPath(home))
    root = Path(str(importlib.util.find_spec("engine").origin)).parent.parent  # type: ignore[union-attr]
    for package in _OWN_PACKAGES:
        _add(files, _walk(root / package), root, _HOME)
    for place, file in _list_distributions():
        files[place] = file
    for name in _SYSTEM_FILES:
        path = Path(name)
        _add(files, _walk(path) if path.is_dir() else [path] * path.exists(), path, PurePosixPath(path))
    for library in _list_libraries([file for file in files.values() if _is_binary(file)]):
        files.setdefault(library, Path(library))
    return files


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        yield from (Path(parent, name) for name in names if not name.endswith((".pyc", ".a")) and name != "src.zip")


def _add(files: dict[str, Path], found: Iterator[Path] | Sequence[Path], base: Path, place: PurePosixPath) -> None:
    for file in found:
        if file.is_file():
            files[str(place / file.relative_to(base))] = file


def _list_distributions() -> Iterator[tuple[str, Path]]:
    """Yields the files of the packages that Pando needs, with what these need in turn."""
    waiting, seen = ["pando"], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # of another system
            continue
        needed = [text for text in distribution.requires or () if "extra ==" not in text]
        waiting += [re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in needed]
        for file in distribution.files or ():
            if _is_needed(file):
                yield str(_PACKAGES / file), Path(str(file.locate()))


def _is_needed(file: importlib.metadata.PackagePath) -> bool:
    if file.parts[0] == ".." or file.suffix in (".pyc", ".pth") or not Path(str(file.locate())).is_file():
        return False
    if file.parts[0] == "pyspark":  # ZooKeeper lies in it, and Spark is not started here
        return file.parts[1:] == ("__init__.py",) or _ZOOKEEPER_JARS.fullmatch(file.name) is not None
    return "tests" not in file.parts and "include" not in file.parts


def _is_binary(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _list_libraries(binaries: Sequence[Path]) -> set[str]:
    """Returns the paths of the shared libraries that these load from the system, and of the loader."""
    command = ["ldd", *map(str, binaries)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    found = set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", answer.stdout, re.MULTILINE))
    return {os.path.normpath(path) for path in found if "site-packages" not in path and "dist-packages" not in path}


def _write_archive(stream: IO[bytes], files: dict[str, Path]) -> None:
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, text in _ACCOUNTS.items():
            _add_file(archive, name, io.BytesIO(text.encode()), len(text), 0o644)
        for name, file in sorted(files.items()):
            with open(file, "rb") as content:
                mode = 0o755 if os.access(file, os.X_OK) else 0o644
                _add_file(archive, name, content, os.fstat(content.fileno()).st_size, mode)


def _add_file(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int, mode: int) -> None:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.size, entry.mode = size, mode
    archive.addfile(entry, content)
