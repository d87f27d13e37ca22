"""What an initiator answers, by ``distributed_ddl_output_mode``. Pure.

========================  ============================  ============================  ======
mode                      a server failed               not all in time               rows
========================  ============================  ============================  ======
throw                     its error                     159                           yes
none                      its error                     159                           no
null_status_on_timeout    its error                     rows with NULL                yes
never_throw               rows with its error           rows with NULL                yes
…_only_active             as without, and servers that do not read the queue are not waited for
========================  ============================  ============================  ======

Source: ClickHouse documentation, "distributed_ddl_output_mode", "distributed_ddl_task_timeout".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from coordination.ddl.ddl_entry import DdlHost, DdlOutcome
from parts.common.errors import UnavailableError
from parts.types import DataType, IntegerType, NullableType, StringType

_ONLY_ACTIVE = "_only_active"
_STATUS = IntegerType(64, signed=True)
_COUNT = IntegerType(64, signed=False)
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class OutputMode:
    """A value of the setting, taken apart."""

    returns_rows: bool
    throws_errors: bool
    throws_on_timeout: bool
    only_active: bool

    @classmethod
    def of(cls, mode: str) -> OutputMode:
        base = mode.removesuffix(_ONLY_ACTIVE)
        return cls(base != "none", base != "never_throw", base in ("throw", "none"), base != mode)

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """Where nothing is thrown for want of time the status of a server may be unknown."""

        def maybe(type_: DataType) -> DataType:
            return type_ if self.throws_on_timeout else NullableType(type_)

        return [
            ("host", StringType()),
            ("port", IntegerType(16, signed=False)),
            ("status", maybe(_STATUS)),
            ("error", maybe(StringType())),
            ("num_hosts_remaining", _COUNT),
            ("num_hosts_active", _COUNT),
        ]


@dataclass
class Answer:
    """What has come so far, in the order in which it came."""

    mode: OutputMode
    hosts: Sequence[DdlHost]

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self._outcomes: dict[str, DdlOutcome] = {}
        self._names = {host.id: host for host in self.hosts}

    def take(self, finished: dict[str, DdlOutcome], active: Collection[str]) -> None:
        for host_id, outcome in finished.items():
            if host_id in self._names and host_id not in self._outcomes:
                self._outcomes[host_id] = outcome
                self._add(self._names[host_id], outcome, active)

    def remaining(self) -> list[DdlHost]:
        """Servers that have not finished."""
        return [host for host in self._names.values() if host.id not in self._outcomes]

    def is_whole(self, readers: Collection[str]) -> bool:
        """``readers``: who reads the queue, where the mode asks."""
        return not any(not self.mode.only_active or host.id in readers for host in self.remaining())

    def end(self, active: Collection[str], *, is_late: bool, what: str) -> None:
        """No more is waited for. Raises 159 (TIMEOUT_EXCEEDED) and a server's error, by the mode."""
        remaining = self.remaining()
        failed = next(((host, found) for host, found in self._outcomes.items() if found.code), None)
        if failed is not None and self.mode.throws_errors:
            raise failed[1].to_error(failed[0])
        if is_late and remaining and self.mode.throws_on_timeout:
            raise UnavailableError("TIMEOUT_EXCEEDED", _late(what, self.hosts, remaining, active))
        if not self.mode.throws_on_timeout:
            for host in remaining:
                self._add(host, None, active)

    def _add(self, host: DdlHost, outcome: DdlOutcome | None, active: Collection[str]) -> None:
        known = (outcome.code, outcome.error) if outcome is not None else (None, None)
        self.rows.append((host.host, host.port, *known, len(self.remaining()), len(active)))


def _late(what: str, hosts: Sequence[DdlHost], remaining: Sequence[DdlHost], active: Collection[str]) -> str:
    names = ", ".join(host.id for host in remaining)
    return (
        f"{what}: {len(remaining)} of {len(hosts)} servers have not finished ({names}), {len(active)} of them are "
        "carrying it out. It stays in the queue, and they will do it; see system.distributed_ddl_queue"
    )
