"""What the processes of one server must know of each other's statements. A process alone knows of nobody."""

from __future__ import annotations

from collections.abc import Mapping

from parts.common.query_status import QueryStatus


class OtherProcesses:
    """What other processes of the server do, for a process that is the whole server: nothing. Quick, thread-safe."""

    def queries(self) -> int:
        """How many statements run in other processes."""
        return 0

    def set_queries(self, count: int) -> None:
        """So many run here."""

    def claim(self, query_id: str, status: QueryStatus | None = None) -> bool:
        """False when a statement of that id runs in another process; else no other may begin one until
        :meth:`release`. ``status`` is that of the statement: it gets a witness where others guard its limits."""
        return True

    def release(self, query_id: str) -> None: ...

    def held_bytes(self) -> int:
        """Memory that other processes hold."""
        return 0

    def user_bytes(self, user: str) -> int:
        """Memory that the user's statements hold in other processes."""
        return 0

    def set_idle_bytes(self, size_bytes: int) -> None:
        """Memory that this process holds beside its statements."""

    def set_bytes(self, held: int, largest: int, by_user: Mapping[str, int]) -> None:
        """Memory that this process holds, its largest statement, and each user's statements."""

    def has_largest(self) -> bool:
        """Whether no other process runs a statement that holds more than the largest here."""
        return True
