"""What the tables that links join have of one origin: the question, the answers, and what they mean.

An origin may be forgotten where all of them have the same changes of it: who has nothing more than the others can bring
them nothing. Each table is read once; who gets a change meanwhile gets it from one that has more, which is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordination.links.positions import Origin
from parts.common.errors import UserError


@dataclass(frozen=True, slots=True)
class SurveyRequest:
    """The question what a table, and those that links join to it, have of an origin."""

    origin: Origin
    database: str = ""
    table: str = ""
    link: str = ""
    """The name at its target of a link whose target is asked; "" if the table is named."""
    uuid: str = ""
    seconds: float = 0.0
    """How long the asker waits."""
    most_links: int = 0
    """How many more links it may go along."""
    seen: frozenset[tuple[str, int]] = frozenset()
    """The keys of the tables that have answered (``OriginHolder.key``)."""


@dataclass(frozen=True, slots=True)
class OriginHolder:
    """One table, and how far it has the changes of an origin."""

    cluster: str
    cluster_uuid: str
    table_id: int
    """The zxid that created the table's root node: it tells tables of a cluster apart."""
    table: str
    applied: int | None
    """The zxid up to which it has the origin's changes; ``None``: it has none."""
    is_own: bool = False
    """The table is the origin."""

    @property
    def key(self) -> tuple[str, int]:
        """Cluster and identity, which tell the table from all others."""
        return self.cluster_uuid, self.table_id


@dataclass(frozen=True, slots=True)
class Objection:
    """Why an origin cannot be forgotten yet: a table has other changes of it, or was not asked."""

    cluster: str
    table: str
    reason: str

    def __str__(self) -> str:
        where = f"table {self.table} of cluster {self.cluster}" if self.table else f"cluster {self.cluster}"
        return f"{where}: {self.reason}"


@dataclass(slots=True)
class OriginSurvey:
    """Answers of the tables that links join, and who could not be asked."""

    holders: list[OriginHolder] = field(default_factory=list)
    silent: list[Objection] = field(default_factory=list)

    def add(self, other: OriginSurvey) -> None:
        """Takes what another cluster found."""
        known = {holder.key for holder in self.holders}
        self.holders += [holder for holder in other.holders if holder.key not in known]
        self.silent += other.silent


def find_objections(survey: OriginSurvey) -> list[Objection]:
    """Lists who has other changes of the origin than the first table of the survey, and who was not asked."""
    own, *others = survey.holders
    found = []
    for holder in others:
        if holder.is_own:
            found.append(Objection(holder.cluster, holder.table, "it is the origin, and it answers"))
        elif holder.applied is None:
            found.append(
                Objection(holder.cluster, holder.table, f"it has no changes of it, this table up to {own.applied}")
            )
        elif holder.applied != own.applied:
            found.append(
                Objection(
                    holder.cluster,
                    holder.table,
                    f"it has changes up to {holder.applied}, this table up to {own.applied}",
                )
            )
    return found + survey.silent


def refuse_objections(origin: Origin, objections: Sequence[Objection]) -> None:
    """Raises 36 (BAD_ARGUMENTS), which names them."""
    if objections:
        raise UserError(
            "BAD_ARGUMENTS",
            f"{origin} cannot be forgotten yet: {'; '.join(map(str, objections))}. Let the links bring what is "
            "missing, and drop the links to clusters that are gone, at both ends. FORCE gives up what this table lacks",
        )
