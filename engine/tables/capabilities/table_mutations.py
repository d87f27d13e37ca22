"""Interface of a table's mutations, for ALTER … UPDATE, KILL MUTATION and ``system.mutations``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from sql.mutations.mutation import Mutation


@dataclass(frozen=True)
class MutationOptions:
    """How a mutation runs.

    ``sync``: 0 returns when the mutation is stored, 1 when this server has finished it, 2 when all replicas have.
    ``may_differ``: results may differ between replicas (``allow_nondeterministic_mutations``).
    """

    sync: int = 0
    may_differ: bool = False
    timeout_seconds: float = 600.0
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class MutationFailure:
    """The last failed attempt of a mutation."""

    part: str = ""
    time: float = 0.0
    reason: str = ""
    code_name: str = ""

    @classmethod
    def of(cls, part: PartName, error: Exception, time: float) -> MutationFailure:
        """Makes the failure of a part from an error."""
        code_name = error.name if isinstance(error, PandoError) else "STD_EXCEPTION"
        return cls(str(part), time, str(error), code_name)


@dataclass(frozen=True)
class MutationSummary:
    """A mutation as ``system.mutations`` shows it.

    ``numbers``: the block number that it took in each partition.
    """

    id: str
    mutation: Mutation
    create_time: float
    numbers: Mapping[str, int]
    parts_to_do: Sequence[PartName]
    parts_in_progress: Sequence[PartName] = ()
    is_done: bool = False
    is_killed: bool = False
    finish_time: float = 0.0
    failure: MutationFailure = MutationFailure()


class TableMutations(Protocol):
    """The mutations of one table. May be called from any thread."""

    def add(self, mutation: Mutation, options: MutationOptions) -> str:
        """Stores the mutation durably, waits as the options say, and returns its id.

        It changes the rows of blocks that have numbers now, and no later ones. Raises 341 (UNFINISHED) if it was to be
        waited for and failed; it is tried again all the same.
        """

    def kill(self, id: str) -> bool:
        """Stops a mutation; parts that it has changed stay changed.

        Returns ``False`` for an unknown or finished mutation.
        """

    def shown(self) -> Sequence[MutationSummary]:
        """Returns the mutations in their order."""


def format_unfinished_message(id: str, failure: MutationFailure) -> str:
    """Returns the message of error 341 (UNFINISHED)."""
    return (
        f"Exception happened during execution of mutation '{id}' with part '{failure.part}' reason: "
        f"'{failure.reason}'. This error maybe retryable or not. In case of unretryable error, mutation can be killed "
        "with KILL MUTATION query"
    )
