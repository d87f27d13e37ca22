"""The initiator's answer, as ``distributed_ddl_output_mode`` says. Pure.

========================  ============================  ============================  ======
mode                      a server failed               not all in time               rows
========================  ============================  ============================  ======
throw                     its error                     159                           yes
none                      its error                     159                           no
null_status_on_timeout    its error                     rows with NULL                yes
never_throw               rows with its error           rows with NULL                yes
…_only_active             the same, but without waiting for servers that do not read the queue
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
    """A parsed value of the setting."""

    returns_rows: bool
    throws_errors: bool
    throws_on_timeout: bool
    only_active: bool

    @classmethod
    def parse(cls, mode: str) -> OutputMode:
        """Parses a value of the setting."""
        base = mode.removesuffix(_ONLY_ACTIVE)
        return cls(base != "none", base != "never_throw", base in ("throw", "none"), base != mode)

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """The columns of the answer.

        If a timeout raises no error, a server's status may be unknown and its columns are Nullable.
        """

        def make_nullable(type_: DataType) -> DataType:
            return type_ if self.throws_on_timeout else NullableType(type_)

        return [
            ("host", StringType()),
            ("port", IntegerType(16, signed=False)),
            ("status", make_nullable(_STATUS)),
            ("error", make_nullable(StringType())),
            ("num_hosts_remaining", _COUNT),
            ("num_hosts_active", _COUNT),
        ]


@dataclass
class Answer:
    """The outcomes received so far, in their order of arrival."""

    mode: OutputMode
    hosts: Sequence[DdlHost]

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self._outcomes: dict[str, DdlOutcome] = {}
        self._names = {host.id: host for host in self.hosts}

    def add_outcomes(self, finished: dict[str, DdlOutcome], active: Collection[str]) -> None:
        """Adds the outcomes that are new."""
        for host_id, outcome in finished.items():
            if host_id in self._names and host_id not in self._outcomes:
                self._outcomes[host_id] = outcome
                self._add(self._names[host_id], outcome, active)

    def list_remaining(self) -> list[DdlHost]:
        """Returns the servers that have not finished."""
        return [host for host in self._names.values() if host.id not in self._outcomes]

    def is_complete(self, readers: Collection[str]) -> bool:
        """Returns whether no more outcomes are to be waited for.

        ``readers`` are the servers that read the queue, if the mode asks for them.
        """
        return not any(not self.mode.only_active or host.id in readers for host in self.list_remaining())

    def finish(self, active: Collection[str], *, is_late: bool, what: str) -> None:
        """Completes the answer after the wait.

        Raises 159 (TIMEOUT_EXCEEDED) or a server's error, depending on the mode.
        """
        remaining = self.list_remaining()
        failed = next(((host, found) for host, found in self._outcomes.items() if found.code), None)
        if failed is not None and self.mode.throws_errors:
            raise failed[1].to_error(failed[0])
        if is_late and remaining and self.mode.throws_on_timeout:
            raise UnavailableError("TIMEOUT_EXCEEDED", _describe_timeout(what, self.hosts, remaining, active))
        if not self.mode.throws_on_timeout:
            for host in remaining:
                self._add(host, None, active)

    def _add(self, host: DdlHost, outcome: DdlOutcome | None, active: Collection[str]) -> None:
        known = (outcome.code, outcome.error) if outcome is not None else (None, None)
        self.rows.append((host.host, host.port, *known, len(self.list_remaining()), len(active)))


def _describe_timeout(
    what: str, hosts: Sequence[DdlHost], remaining: Sequence[DdlHost], active: Collection[str]
) -> str:
    names = ", ".join(host.id for host in remaining)
    return (
        f"{what}: {len(remaining)} of {len(hosts)} servers have not finished ({names}), {len(active)} of them are "
        "carrying it out. It stays in the queue, and they will do it; see system.distributed_ddl_queue"
    )
