"""Applications, which number what they commit: of each the last version is kept, so that none is committed twice.

::

    applications/<name>           {"version":1,"application":…,"committed":n,"rows":…}
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from coordination.keeper import Create, Keeper, SetData
from coordination.paths import TablePaths
from coordination.transactions import FORMAT_VERSION, name_of, parse_document


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The last version that the application committed, ``None`` before the first, and how many rows that were."""

    path: str
    application: str
    committed: int | None = None
    rows: int = 0
    node_version: int = 0

    def takes(self, version: int | None) -> bool:
        return self.committed is None or (version is not None and version > self.committed)

    def rows_of(self, version: int | None) -> int:
        """0 when it is not the last."""
        return self.rows if version == self.committed else 0

    def claim(self, version: int, rows: int) -> Create | SetData:
        """The operation of the commit that makes ``version`` the last; fails when another came first."""
        document = {
            "version": FORMAT_VERSION, "application": self.application, "committed": version, "rows": rows,
        }  # fmt: skip
        data = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        if self.committed is None:
            return Create(self.path, data)
        return SetData(self.path, data, self.node_version)


def read_application(keeper: Keeper, table: TablePaths, application: str) -> ApplicationVersion:
    path = table.application(name_of(application))
    answer = keeper.get_many([path])[0]
    if answer is None:
        keeper.create_parents(table.applications)
        return ApplicationVersion(path, application)
    document = parse_document(answer[0], "application")
    return ApplicationVersion(path, application, document["committed"], document["rows"], answer[1].version)
