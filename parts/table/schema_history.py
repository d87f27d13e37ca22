"""Which column of an old part is which of the table's: what ALTER has done to the columns, version by version.

A part knows the version of the definition that it was written under, and has the columns that the table had then. To
read it under a later one, nothing is rewritten: a column that was added after (or cleared, or dropped and added again)
is absent in it, whatever the part has under that name; one that was renamed after has its former name in it; one whose
type changed is converted, from each type to the next, so that a value does not depend on whether a merge came between
two changes; by a type that was taken back nothing changes. A column that was dropped is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class SchemaHistory:
    """``version`` counts the changes. ``added``: the version in which a column got its present content, of columns that
    were not there from the beginning. ``renamed``: the versions in which a column's name changed, with the name before,
    in order. ``keys``: the version in which the sorting or the sampling key last changed; 0: never. ``retyped``: the
    versions in which a column's type changed, with the type since then, and the expression (of no columns) that NULL
    became if there is none in that type, in order."""

    version: int = 0
    added: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    keys: int = 0
    retyped: Mapping[str, tuple[tuple[int, str, str], ...]] = field(default_factory=dict)

    def get_name_in_part(self, part_version: int, column: str) -> str | None:
        """The name of the table's column in a part; ``None`` if the part cannot have it."""
        if self.added.get(column, 0) > part_version:
            return None
        former = (name for version, name in self.renamed.get(column, ()) if version > part_version)
        return next(former, column)

    # What ALTER does: each is a part of the change that makes ``version``

    def next(self) -> SchemaHistory:
        return replace(self, version=self.version + 1)

    def add_column(self, column: str) -> SchemaHistory:
        """No part has the column so far."""
        gone = self.drop_column(column)
        return replace(gone, added={**gone.added, column: self.version})

    def drop_column(self, column: str) -> SchemaHistory:
        return replace(
            self,
            added=_without(self.added, column),
            renamed=_without(self.renamed, column),
            retyped=_without(self.retyped, column),
        )

    def rename_column(self, old: str, new: str) -> SchemaHistory:
        gone = self.drop_column(old)
        added = {**gone.added, new: self.added[old]} if old in self.added else gone.added
        names = (*self.renamed.get(old, ()), (self.version, old))
        types = {**gone.retyped, new: self.retyped[old]} if old in self.retyped else gone.retyped
        return replace(gone, added=added, renamed={**gone.renamed, new: names}, retyped=types)

    def change_type(self, column: str, type_: str, instead_of_null: str) -> SchemaHistory:
        changes = (*self.retyped.get(column, ()), (self.version, type_, instead_of_null))
        return replace(self, retyped={**self.retyped, column: changes})

    def change_keys(self) -> SchemaHistory:
        return replace(self, keys=self.version)

    # On disk

    def to_json(self) -> dict[str, object]:
        document = {
            "version": self.version,
            "added": dict(self.added),
            "renamed": {name: [list(change) for change in changes] for name, changes in self.renamed.items()},
        }
        retyped = {name: [list(change) for change in changes] for name, changes in self.retyped.items()}
        return document | ({"keys": self.keys} if self.keys else {}) | ({"retyped": retyped} if retyped else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SchemaHistory:
        """Raises ``KeyError``, ``ValueError`` or ``TypeError`` for another document."""
        return cls(
            int(document["version"]),
            {str(name): int(version) for name, version in document["added"].items()},
            {
                str(name): tuple((int(version), str(former)) for version, former in changes)
                for name, changes in document["renamed"].items()
            },
            int(document.get("keys", 0)),
            {
                str(name): tuple((int(version), str(type_), str(instead)) for version, type_, instead in changes)
                for name, changes in document.get("retyped", {}).items()
            },
        )


UNCHANGED = SchemaHistory()


def _without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}
