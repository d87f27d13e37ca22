"""The last version that each application committed, so that none is committed twice.

An application numbers its commits. A table remembers a bounded number of applications. Those whose last commit is
oldest, by ZooKeeper's order of commits, are forgotten first.

::

    applications/<name>           {"version":1,"application":…,"committed":n,"rows":…}
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from coordination.keeper.interface import Create, Delete, Keeper, KeeperConnectionLoss, MultiFailed, SetData
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists
from coordination.transactions.transaction_nodes import FORMAT_VERSION, parse_versioned_json, transaction_node_name


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The last version that an application committed, ``None`` before the first, and its number of rows."""

    path: str
    application: str
    committed: int | None = None
    rows: int = 0
    node_version: int = 0

    def accepts(self, version: int | None) -> bool:
        """Tells whether ``version`` may be committed next."""
        return self.committed is None or (version is not None and version > self.committed)

    def rows_of(self, version: int | None) -> int:
        """Returns the rows of a version; 0 if it is not the last one."""
        return self.rows if version == self.committed else 0

    def commit_op(self, version: int, rows: int) -> Create | SetData:
        """Returns the operation that makes ``version`` the last one. It fails when another came first."""
        document = {
            "version": FORMAT_VERSION, "application": self.application, "committed": version, "rows": rows,
        }  # fmt: skip
        data = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        if self.committed is None:
            return Create(self.path, data)
        return SetData(self.path, data, self.node_version)


def read_applications(keeper: Keeper, table: TablePaths) -> dict[str, tuple[int, int]]:
    """Returns by node name the last version of each application, and its rows."""
    names = keeper.children_many([table.applications])[0] or []
    answers = keeper.get_many([table.application(name) for name in names])
    documents = {
        name: parse_versioned_json(answer[0], "application")
        for name, answer in zip(names, answers, strict=True)
        if answer is not None
    }
    return {name: (document["committed"], document["rows"]) for name, document in documents.items()}


def read_application_version(keeper: Keeper, table: TablePaths, application: str) -> ApplicationVersion:
    """Reads the last version of one application."""
    path = table.application(transaction_node_name(application))
    answer = keeper.get_many([path])[0]
    if answer is None:
        create_lists(keeper, table, table.applications)
        return ApplicationVersion(path, application)
    document = parse_versioned_json(answer[0], "application")
    return ApplicationVersion(path, application, document["committed"], document["rows"], answer[1].version)


def clean_applications(keeper: Keeper, table: TablePaths, *, most: int) -> int:
    """Forgets the oldest of more than ``most`` applications. Returns how many were to be deleted.

    It deletes a tenth of ``most`` more than the surplus, so that the list is rarely read. An application that commits
    at the same time stays.
    """
    names = keeper.children_many([table.applications])[0] or ()
    if len(names) <= most:
        return 0
    paths = [table.application(name) for name in names]
    stats = zip(paths, keeper.exists_many(paths), strict=True)
    oldest = sorted((stat.modified_zxid, path, stat.version) for path, stat in stats if stat is not None)
    surplus = [Delete(path, version) for _, path, version in oldest[: len(names) - most + most // 10]]
    for packet in split_into_multis(surplus, operation_bytes):
        with contextlib.suppress(MultiFailed, KeeperConnectionLoss):
            keeper.multi(packet)
    return len(surplus)
