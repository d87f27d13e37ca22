"""How much memory this machine gives the process, how much the process holds, and giving it back.

Bytes throughout. Memory behind mapped files is not counted: the system takes it back when it needs it.
Source: ``/proc`` and cgroups of Linux; where they are missing the numbers fall back to what POSIX tells.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import cast

import pyarrow as pa

_YOUNG = 1
"""The generation of what was made lately. The oldest one grows with every part of every table."""
_KEPT_PAGES_MS = 10_000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 8 << 20
"""A larger allocation is mapped, and given back as soon as it is freed."""
_KEPT_BYTES = 64 << 20
"""Of what is freed so much is kept, in each of the system's arenas."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def get_available_bytes() -> int:
    """The machine's memory, or the container's where that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES]
    for file in _CGROUP_LIMITS:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return min(limit for limit in limits if limit > 0)


def get_held_bytes(pid: int = 0) -> int:
    """What the process holds in memory now, without mapped files; 0 for one that is no more. By default this one."""
    if pid:
        try:
            fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        except OSError:
            return 0
    else:
        file = _statm()
        if file is None:
            return 0
        fields = os.pread(file, 128, 0).split()
    return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES


def get_bytes_below_data_limit() -> int:
    """How many bytes more the system lets the process have (``RLIMIT_DATA``)."""
    wall, _ = resource.getrlimit(resource.RLIMIT_DATA)
    file = _statm()
    if file is None or wall == resource.RLIM_INFINITY:
        return sys.maxsize
    return wall - int(os.pread(file, 128, 0).split()[5]) * _PAGE_BYTES


@cache
def _statm() -> int | None:
    """Opened once: every statement asks, and each call to the system may cost it its turn at the interpreter."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


os.register_at_fork(after_in_child=_statm.cache_clear)


def configure_allocators() -> None:
    """Arrow's memory comes from an allocator that gives back what other threads freed: mimalloc keeps that.

    It keeps pages for some seconds, where its default gives back every page at once and asks for it again: an INSERT of
    a million rows takes 3 % longer so, and a merge 5 % more of the processors. NumPy's arrays come from the system's,
    which would map those of a frame, and give them back, one by one: their pages cost as much as what fills them.
    :func:`release_memory` gives back all.
    """
    if "jemalloc" in pa.supported_memory_backends():
        pa.jemalloc_set_decay_ms(_KEPT_PAGES_MS)
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    option = _of_glibc("mallopt")
    if option is not None:
        option(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        option(_M_TRIM_THRESHOLD, _KEPT_BYTES)


@contextmanager
def without_collections() -> Iterator[None]:
    """While much is made that stays: collections would look at it again and again. Those of a thousand tables took two
    fifths of the time in which they are read from disk."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_heap() -> None:
    """What is there now stays: no collection looks at it again. For a server that has started.

    A collection holds the interpreter for its whole length, some 60 ms for the modules alone.
    """
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Gives what the allocators keep for later back to the system, and what only the errors of queries that failed
    still hold: those are young. Takes some milliseconds."""
    gc.collect(_YOUNG)
    pa.default_memory_pool().release_unused()
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_glibc(name: str) -> Callable[..., int] | None:
    try:
        return cast(Callable[..., int], getattr(ctypes.CDLL(None), name))
    except (OSError, AttributeError):  # not glibc
        return None
