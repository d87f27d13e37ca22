"""The changes of a table's columns, version by version, by which older parts are read.

A part knows the version of the definition it was written under, and has the columns of that version. It is read under a
later definition without being rewritten. A column that was added later (or cleared, or dropped and added again) is
absent, whatever the part has under that name. A column that was renamed later has its former name in the part. A column
whose type changed is converted from each type to the next, so that a value does not depend on whether a merge came
between two changes. A type change that was reverted changes no value. Dropped columns are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class SchemaHistory:
    """The changes of a table's columns. ``version`` counts them.

    ``added``: the version in which a column got its present content, for columns added later. ``renamed``: the versions
    in which a column was renamed, with its former names, in order. ``keys``: the version in which the sorting or
    sampling key last changed; 0: never. ``retyped``: the versions in which a column's type changed, in order. Each has
    the new type, and the constant expression that replaces NULL if that type has none.
    """

    version: int = 0
    added: Mapping[str, int] = field(default_factory=dict)
    renamed: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    keys: int = 0
    retyped: Mapping[str, tuple[tuple[int, str, str], ...]] = field(default_factory=dict)

    def get_name_in_part(self, part_version: int, column: str) -> str | None:
        """Returns the column's name in a part of this version; ``None`` if the part cannot have it."""
        if self.added.get(column, 0) > part_version:
            return None
        former = (name for version, name in self.renamed.get(column, ()) if version > part_version)
        return next(former, column)

    # The actions of ALTER, each part of the change that makes ``version``

    def next_version(self) -> SchemaHistory:
        """Returns the history with the next version, to which the following changes belong."""
        return replace(self, version=self.version + 1)

    def add_column(self, column: str) -> SchemaHistory:
        """Adds a column that no existing part has."""
        gone = self.drop_column(column)
        return replace(gone, added={**gone.added, column: self.version})

    def drop_column(self, column: str) -> SchemaHistory:
        """Forgets the column."""
        return replace(
            self,
            added=_without(self.added, column),
            renamed=_without(self.renamed, column),
            retyped=_without(self.retyped, column),
        )

    def rename_column(self, old: str, new: str) -> SchemaHistory:
        """Notes that the column has another name from this version on."""
        gone = self.drop_column(old)
        added = {**gone.added, new: self.added[old]} if old in self.added else gone.added
        names = (*self.renamed.get(old, ()), (self.version, old))
        types = {**gone.retyped, new: self.retyped[old]} if old in self.retyped else gone.retyped
        return replace(gone, added=added, renamed={**gone.renamed, new: names}, retyped=types)

    def change_type(self, column: str, type_: str, instead_of_null: str) -> SchemaHistory:
        """Notes a new type. ``instead_of_null``: the expression that replaces NULL, or ``""``."""
        changes = (*self.retyped.get(column, ()), (self.version, type_, instead_of_null))
        return replace(self, retyped={**self.retyped, column: changes})

    def change_keys(self) -> SchemaHistory:
        """Notes a change of the sorting or sampling key."""
        return replace(self, keys=self.version)

    # On disk

    def to_json(self) -> dict[str, object]:
        """Returns the JSON object on disk."""
        document = {
            "version": self.version,
            "added": dict(self.added),
            "renamed": {name: [list(change) for change in changes] for name, changes in self.renamed.items()},
        }
        retyped = {name: [list(change) for change in changes] for name, changes in self.retyped.items()}
        return document | ({"keys": self.keys} if self.keys else {}) | ({"retyped": retyped} if retyped else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SchemaHistory:
        """Parses the JSON object. Raises ``KeyError``, ``ValueError`` or ``TypeError`` for another document."""
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
