"""ZooKeeper's tree of nodes in memory, and transactions on it.

Nodes are immutable values in a dictionary.

A multi works on an overlay, so that nothing of it is visible before it is committed; an old copy of the dictionary is
the past. As in ZooKeeper, a sequential name takes the number of creates its parent has seen, whether sequential or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordination.keeper.interface import (
    ANY_VERSION,
    Answer,
    BadVersion,
    Check,
    Create,
    Delete,
    Get,
    KeeperError,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Read,
    SetData,
    Stat,
)


@dataclass(frozen=True, slots=True)
class Node:
    """A znode.

    ``creates`` counts the children ever created; ``owner`` is an ephemeral node's session, or 0.
    """

    data: bytes
    version: int
    creates: int
    children_version: int
    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    owner: int
    children: frozenset[str]


Tree = dict[str, Node]


@dataclass(frozen=True)
class Snapshot:
    """The state on a server's disk: all nodes, ephemeral ones too, and the last transaction number."""

    tree: Tree
    zxid: int


def split_path(path: str) -> tuple[str, str]:
    """Splits a path into parent and name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class TreeTransaction:
    """A multi, applied to an overlay of the tree. Nothing is visible until ``commit``."""

    def __init__(self, tree: Tree, zxid: int, now_ms: int, session: int) -> None:
        self._tree = tree
        self._changed: dict[str, Node | None] = {}
        self._zxid = zxid
        self._now_ms = now_ms
        self._session = session
        self.data_events: list[str] = []
        self.child_events: list[str] = []
        self.created_events: list[str] = []

    def node(self, path: str) -> Node:
        """Returns the node as the transaction sees it. Raises ``NoNode``."""
        found = self._changed[path] if path in self._changed else self._tree.get(path)
        if found is None:
            raise NoNode("no node", path)
        return found

    def has(self, path: str) -> bool:
        return (self._changed[path] if path in self._changed else self._tree.get(path)) is not None

    def apply(self, op: Op) -> str | Stat | None:
        """Applies one operation and returns its result. Raises ``KeeperError`` if it fails."""
        match op:
            case Create():
                return self.create(op)
            case Delete():
                self.delete(op)
                return None
            case SetData():
                return self.set(op)
            case Check():
                self._expect(op.path, op.version)
                return None

    def _expect(self, path: str, version: int) -> Node:
        node = self.node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"version is {node.version}, expected {version}", path)
        return node

    def create(self, op: Create) -> str:
        parent_path, name = split_path(op.path)
        parent = self.node(parent_path)
        if parent.owner:
            raise KeeperError("NoChildrenForEphemerals", op.path)
        path = op.path
        if op.sequential:
            name = f"{name}{parent.creates:010d}"
            path = f"{op.path}{parent.creates:010d}"
        if self.has(path):
            raise NodeExists("node exists", path)
        owner = self._session if op.ephemeral else 0
        self._changed[path] = Node(
            op.data, 0, 0, 0, self._zxid, self._zxid, self._now_ms, self._now_ms, owner, frozenset()
        )
        self._changed[parent_path] = replace(
            parent,
            creates=parent.creates + 1,
            children_version=parent.children_version + 1,
            children=parent.children | {name},
        )
        self.created_events.append(path)
        self.child_events.append(parent_path)
        return path

    def delete(self, op: Delete) -> None:
        node = self._expect(op.path, op.version)
        if node.children:
            raise NotEmpty("not empty", op.path)
        parent_path, name = split_path(op.path)
        parent = self.node(parent_path)
        self._changed[op.path] = None
        self._changed[parent_path] = replace(
            parent, children_version=parent.children_version + 1, children=parent.children - {name}
        )
        self.data_events.append(op.path)
        self.child_events.extend((op.path, parent_path))

    def set(self, op: SetData) -> Stat:
        node = self._expect(op.path, op.version)
        changed = replace(
            node, data=op.data, version=node.version + 1, modified_zxid=self._zxid, modified_ms=self._now_ms
        )
        self._changed[op.path] = changed
        self.data_events.append(op.path)
        return node_stat(changed)

    def commit(self) -> None:
        """Writes the changes to the tree."""
        for path, node in self._changed.items():
            if node is None:
                self._tree.pop(path, None)
            else:
                self._tree[path] = node


def node_stat(node: Node) -> Stat:
    """Returns the node's stat."""
    return Stat(
        version=node.version,
        children_version=node.children_version,
        created_zxid=node.created_zxid,
        modified_zxid=node.modified_zxid,
        created_ms=node.created_ms,
        modified_ms=node.modified_ms,
        ephemeral_owner=node.owner,
        data_length=len(node.data),
        children_count=len(node.children),
    )


def answer_of(read: Read, node: Node | None) -> Answer:
    """Returns the answer to a read of ``node``, which is ``None`` if it does not exist."""
    if node is None:
        return None
    return (node.data, node_stat(node)) if isinstance(read, Get) else sorted(node.children)
