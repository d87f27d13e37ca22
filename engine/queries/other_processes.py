"""The interface to statements in the server's other processes, and its version for a single process."""

from __future__ import annotations

from collections.abc import Mapping

from parts.common.query_status import QueryStatus


class OtherProcesses:
    """The other processes of the server: none, for a server of one process.

    All methods are quick and thread-safe.
    """

    def count_queries(self) -> int:
        """Returns how many statements run in other processes."""
        return 0

    def publish_query_count(self, count: int) -> None:
        """Publishes how many statements run here."""

    def claim_query_id(self, query_id: str, status: QueryStatus | None = None) -> bool:
        """Claims a query id until :meth:`release_query_id`; returns False if it is in use in another process.

        ``status`` is the statement's; where other processes enforce its limits it gets a witness.
        """
        return True

    def release_query_id(self, query_id: str) -> None:
        """Releases a claimed query id."""

    def read_held_bytes(self) -> int:
        """Returns the memory that other processes hold."""
        return 0

    def read_user_bytes(self, user: str) -> int:
        """Returns the memory that the user's statements hold in other processes."""
        return 0

    def publish_idle_bytes(self, size_bytes: int) -> None:
        """Publishes the memory that this process holds besides its statements."""

    def publish_statement_bytes(self, held: int, largest: int, by_user: Mapping[str, int]) -> None:
        """Publishes the memory of this process, of its largest statement, and of each user's statements."""

    def has_largest(self) -> bool:
        """Returns whether the server's largest statement, by memory, runs in this process."""
        return True
