"""Measure the memory of the machine and the process, and return unused memory to the system.

All sizes are bytes. Memory of mapped files is not counted: the system takes it back when it needs it. Source: ``/proc``
and cgroups of Linux; where they are missing, POSIX.
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
"""Generation of recently made objects. The oldest generation grows with every part of every table."""
_KEPT_PAGES_MS = 10_000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 8 << 20
"""Larger allocations are mapped, and returned to the system as soon as they are freed."""
_KEPT_BYTES = 64 << 20
"""Freed memory that each of glibc's arenas keeps."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@cache
def get_available_bytes() -> int:
    """Returns the machine's memory, or the container's limit if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES]
    for file in _CGROUP_LIMITS:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return min(limit for limit in limits if limit > 0)


def get_held_bytes(pid: int = 0) -> int:
    """Returns the memory that a process holds, without mapped files; 0 if it has ended.

    Default: this process.
    """
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
    """Returns how many more bytes the system lets the process have (``RLIMIT_DATA``)."""
    wall, _ = resource.getrlimit(resource.RLIMIT_DATA)
    file = _statm()
    if file is None or wall == resource.RLIM_INFINITY:
        return sys.maxsize
    return wall - int(os.pread(file, 128, 0).split()[5]) * _PAGE_BYTES


@cache
def _statm() -> int | None:
    """Returns a descriptor of ``/proc/self/statm``, opened once.

    Every statement reads it, and each system call may cost a thread its turn at the interpreter.
    """
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


os.register_at_fork(after_in_child=_statm.cache_clear)


def configure_allocators() -> None:
    """Makes Arrow use jemalloc, and makes glibc keep and return memory as large arrays need it.

    jemalloc returns what other threads have freed; mimalloc keeps it. It keeps pages for some seconds instead of
    returning each at once, which would make an INSERT of a million rows 3 % and a merge 5 % slower. NumPy's arrays come
    from glibc. By default it would map and return the arrays of every frame, and their pages would cost as much as
    filling them. :func:`release_memory` returns everything.
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
    """Disables garbage collection while many lasting objects are made.

    Collections would examine them again and again: with a thousand tables that took two fifths of the loading time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def freeze_heap() -> None:
    """Excludes all existing objects from garbage collection, when a server has started.

    A collection holds the interpreter all the time, some 60 ms for the modules alone.
    """
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Returns memory that the allocators keep to the system. Takes some milliseconds.

    It first collects young objects, which the errors of failed queries may still hold.
    """
    gc.collect(_YOUNG)
    pa.default_memory_pool().release_unused()
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_glibc(name: str) -> Callable[..., int] | None:
    """Returns a function of glibc; ``None`` if there is none."""
    try:
        return cast(Callable[..., int], getattr(ctypes.CDLL(None), name))
    except (OSError, AttributeError):  # not glibc
        return None
