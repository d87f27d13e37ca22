"""Transactions of inserts: parts are staged under a transaction's name, and decided all at once.

::

    transactions/<name>           {"version":1,"id":…,"state":"open"|"committed"|"aborted","reason":…}
                                  "sync": UUIDs of the synchronous links with whose targets it was committed
    transactions/<name>/<key>     {"version":1,"replica":…,"place":…,"partition":…,"hash":…,"rows":…,"bytes":…}
    open_transactions/<name>      while it is open; empty

A staged part is whole and durable at its place on its replica (``parts.store.staged_parts``) before its node exists,
and no query sees it. Its key names the attempt and the INSERT (:func:`staged_key_prefix`): a repeated INSERT has the
same keys. The commit (:mod:`coordination.transactions.transaction_commit`) changes the state of an open transaction in
the same multi that logs the parts. Every change of the state changes the version of its node, and every commit or abort
checks it. So a transaction is decided once, whatever is repeated on any replica.

Staging writes ``open_transactions/<name>`` in the same multi, whatever its version: INSERTs do not conflict with one
another, and fail when it is deleted. A commit deletes it in the version from before the keys were listed, and lists
them again if it was written since. So an acknowledged INSERT is in the commit; one that comes too late is refused.

Invariants
- A transaction that left ``open`` never returns to it; ``open_transactions/<name>`` exists while it is open.
- Keys are only created while it is open. The rows of a key never change: staging the same rows again changes nothing,
  and other rows are refused.
- A decided transaction is remembered for a week, if it is one of the last ten thousand, so that a late repeat of its
  commit learns the outcome.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import xxhash

from coordination.keeper.interface import (
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import ReplicaPaths, TablePaths, parse_sequence_number
from coordination.nodes.table_lists import create_lists
from parts.common.errors import ConflictError, CorruptionError, UnknownOutcomeError, UserError

OPEN_TRANSACTION_IDLE_SECONDS = 86_400.0
"""An open transaction is aborted if nothing was staged in it for this time."""
DECIDED_TRANSACTION_SECONDS = 7 * 86_400.0
MAX_REMEMBERED_TRANSACTIONS = 10_000
"""Decided transactions kept: a stream commits one every few seconds."""
FORMAT_VERSION = 1
_ATTEMPTS = 20


class TransactionState(Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class StagedRecord:
    """The content of a staged part's node."""

    replica: str
    place: str
    partition_id: str
    content_hash: str
    rows: int
    size_bytes: int

    def to_bytes(self) -> bytes:
        """Returns the record as JSON."""
        document = {
            "version": FORMAT_VERSION,
            "replica": self.replica,
            "place": self.place,
            "partition": self.partition_id,
            "hash": self.content_hash,
            "rows": self.rows,
            "bytes": self.size_bytes,
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> StagedRecord:
        """Parses a staged part's node. Raises ``CorruptionError``."""
        document = parse_versioned_json(data, "staged part")
        try:
            return cls(*(document[name] for name in ("replica", "place", "partition", "hash", "rows", "bytes")))
        except KeyError as error:
            raise CorruptionError(f"Cannot read staged part {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as it was read. ``version`` is that of its node; ``keys`` names its staged parts."""

    name: str
    id: str
    state: TransactionState
    version: int
    reason: str = ""
    rows: int = 0
    """Number of rows, if committed."""
    keys: tuple[str, ...] = ()
    inserts: int = 0
    """The version of ``open_transactions/<name>``, read before ``keys``."""
    created_ms: int = 0
    changed_ms: int = 0
    """Time of the last INSERT into it, or of its decision."""
    sync_targets: tuple[str, ...] = ()
    """The links with whose targets it was committed."""
    decided_zxid: int = 0
    """Of a decided one: where the decision stands in the order of commits."""


def staged_key_prefix(attempt: str) -> str:
    """Returns the common prefix of the keys of all parts staged under this attempt."""
    return f"{xxhash.xxh3_64_hexdigest(attempt.encode())}-"


def staged_key(attempt: str, insert: str, number: int) -> str:
    """Returns the key of the ``number``-th part of an INSERT."""
    return f"{staged_key_prefix(attempt)}{xxhash.xxh3_64_hexdigest(insert.encode())}-{number}"


def transaction_node_name(transaction_id: str) -> str:
    """Returns the name of a transaction's, or an application's, node and directory."""
    return xxhash.xxh3_128_hexdigest(transaction_id.encode())


def transaction_content(
    transaction_id: str,
    state: TransactionState,
    *,
    reason: str = "",
    rows: int = 0,
    sync_targets: Collection[str] = (),
) -> bytes:
    """Returns the content of a transaction's node, as JSON. ``sync_targets``: see ``LogEntry``."""
    document: dict[str, object] = {
        "version": FORMAT_VERSION, "id": transaction_id, "state": state.value, "reason": reason, "rows": rows,
    }  # fmt: skip
    if sync_targets:
        document["sync"] = sorted(sync_targets)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def read_transaction(keeper: Keeper, table: TablePaths, name: str) -> Transaction | None:
    """Reads a transaction, after a ``sync``; ``None`` if there is none."""
    keeper.sync(table.transaction(name))
    return next(iter(read_named_transactions(keeper, table, [name])), None)


def read_transactions(keeper: Keeper, table: TablePaths) -> list[Transaction]:
    """Reads all open and remembered transactions."""
    return read_named_transactions(keeper, table, keeper.children_many([table.transactions])[0] or [])


def read_named_transactions(keeper: Keeper, table: TablePaths, names: Sequence[str]) -> list[Transaction]:
    """Reads those of the transactions that exist."""
    paths = [table.transaction(name) for name in names]
    nodes = keeper.get_many(paths)
    inserts = keeper.exists_many([table.open_transaction(name) for name in names])
    keys = keeper.children_many(paths)  # read last, after the version of the open node
    found = []
    for name, node, insert, own_keys in zip(names, nodes, inserts, keys, strict=True):
        if node is not None:
            document, stat = parse_versioned_json(node[0], "transaction"), node[1]
            found.append(
                Transaction(
                    name,
                    document["id"],
                    TransactionState(document["state"]),
                    stat.version,
                    document["reason"],
                    document["rows"],
                    tuple(own_keys or ()),
                    insert.version if insert is not None else 0,
                    stat.created_ms,
                    max(stat.modified_ms, insert.modified_ms if insert is not None else 0),
                    tuple(document.get("sync", ())),
                    stat.modified_zxid,
                )
            )
    return found


def read_staged_parts(keeper: Keeper, table: TablePaths, name: str, keys: Sequence[str]) -> dict[str, StagedRecord]:
    """Reads the records of the staged parts that exist, by key."""
    answers = keeper.get_many([table.staged_part(name, key) for key in keys])
    return {key: StagedRecord.parse(answer[0]) for key, answer in zip(keys, answers, strict=True) if answer is not None}


def open_transaction(keeper: Keeper, table: TablePaths, transaction_id: str) -> Transaction:
    """Returns an open transaction, creating it if needed. Raises :func:`already_decided_error`."""
    name = transaction_node_name(transaction_id)
    for _ in range(_ATTEMPTS):
        found = read_transaction(keeper, table, name)
        if found is not None:
            if found.state is not TransactionState.OPEN:
                raise already_decided_error(found)
            return found
        try:
            keeper.multi(
                [
                    Create(table.transaction(name), transaction_content(transaction_id, TransactionState.OPEN)),
                    Create(table.open_transaction(name)),
                ]
            )
        except MultiFailed as error:
            if isinstance(error.cause, NoNode):
                create_lists(keeper, table, table.transactions, table.open_transactions)
        except KeeperConnectionLoss:
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"Could not open the transaction in {_ATTEMPTS} attempts; try again")


def already_decided_error(transaction: Transaction) -> UserError:
    """Returns the error 649 (INVALID_TRANSACTION)."""
    reason = f": {transaction.reason}" if transaction.reason else ""
    return UserError(
        "INVALID_TRANSACTION",
        f"Transaction {transaction.id!r} was {transaction.state.value} before{reason}. Begin another, with an id of "
        "its own",
    )


def register_staged_parts(
    keeper: Keeper, table: TablePaths, transaction: Transaction, records: Mapping[str, StagedRecord]
) -> bool:
    """Registers the parts of one INSERT, which are durable at their places, in ZooKeeper.

    Returns ``False`` if the same rows were registered before, perhaps by another replica: the parts at these places are
    not needed. Raises 389 when other rows have one of the keys, and :func:`already_decided_error`. After any other
    error it is unknown whether they were registered.
    """
    paths = {key: table.staged_part(transaction.name, key) for key in records}
    noted = SetData(table.open_transaction(transaction.name), b"")
    is_in_doubt = False
    for _ in range(_ATTEMPTS):
        known = read_staged_parts(keeper, table, transaction.name, list(records))
        if known:
            _require_same(transaction, records, known)
            return next(iter(known.values())).place == next(iter(records.values())).place
        try:
            keeper.multi([noted, *(Create(paths[key], record.to_bytes()) for key, record in records.items())])
            return True
        except KeeperConnectionLoss:
            is_in_doubt = True
            keeper.sync(table.root)
        except MultiFailed as error:
            if error.op == noted:
                decided = already_decided_error(read_transaction(keeper, table, transaction.name) or transaction)
                if is_in_doubt:  # the commit may have taken them, and forgotten their keys
                    raise UnknownOutcomeError("UNKNOWN_STATUS_OF_INSERT", decided.message) from error
                raise decided from error
            if not isinstance(error.cause, NodeExists):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", f"Could not stage the rows in {_ATTEMPTS} attempts; try again")


def _require_same(
    transaction: Transaction, records: Mapping[str, StagedRecord], known: Mapping[str, StagedRecord]
) -> None:
    """Raises if the keys belong to another INSERT. Parts of one INSERT are registered together."""
    for key, record in records.items():
        other = known.get(key)
        if other is None or (other.content_hash, other.partition_id) != (record.content_hash, record.partition_id):
            raise ConflictError(
                "INSERT_WAS_DEDUPLICATED",
                f"Other rows were inserted into transaction {transaction.id!r} under this insert_deduplication_token "
                "before; nothing of these rows is stored",
            )


def abort_transaction(
    keeper: Keeper, table: TablePaths, name: str, reason: str, *, transaction_id: str = ""
) -> Transaction | None:
    """Aborts an open transaction and returns its state. Repeatable.

    A transaction that never existed gives ``None``; with ``transaction_id`` it is created as aborted, so that an INSERT
    that is still on its way is refused.
    """
    path = table.transaction(name)
    for _ in range(_ATTEMPTS):
        found = read_transaction(keeper, table, name)
        if found is None and transaction_id:
            try:
                keeper.create(path, transaction_content(transaction_id, TransactionState.ABORTED, reason=reason))
            except NoNode:
                create_lists(keeper, table, table.transactions)
            except (NodeExists, KeeperConnectionLoss):
                continue
        elif found is None or found.state is not TransactionState.OPEN:
            return found
        else:
            aborted = SetData(
                path, transaction_content(found.id, TransactionState.ABORTED, reason=reason), found.version
            )
            with contextlib.suppress(MultiFailed, KeeperConnectionLoss):
                keeper.multi([aborted, Delete(table.open_transaction(name))])
    raise ConflictError("KEEPER_EXCEPTION", f"Could not abort the transaction in {_ATTEMPTS} attempts; try again")


def clean_transactions(keeper: Keeper, table: TablePaths) -> int:
    """Aborts abandoned transactions and forgets old decisions. Returns how many were changed.

    Ages are differences of ZooKeeper's own times: a node is written to learn the time there.
    """
    changed = 0
    names = keeper.children_many([table.transactions])[0] or []
    if not names:
        return changed
    now = keeper.set(table.transactions, b"").modified_ms / 1000
    stats = keeper.exists_many([table.transaction(name) for name in names])
    still_open = set(keeper.children_many([table.open_transactions])[0] or ())
    for found in read_named_transactions(keeper, table, [name for name in names if name in still_open]):
        if found.state is TransactionState.OPEN and now - found.changed_ms / 1000 > OPEN_TRANSACTION_IDLE_SECONDS:
            abort_transaction(
                keeper, table, found.name, f"nothing was inserted for {OPEN_TRANSACTION_IDLE_SECONDS:.0f} s"
            )
            changed += 1
    # There may be many decided transactions: only their stats are read.
    decided = [(s, name) for s, name in zip(stats, names, strict=True) if s is not None and name not in still_open]
    decided.sort(key=lambda item: item[0].modified_zxid, reverse=True)
    for rank, (stat, name) in enumerate(decided):
        if stat.children_count:
            _forget_keys(keeper, table, name, keeper.children_many([table.transaction(name)])[0] or [])
            changed += 1
        elif rank >= MAX_REMEMBERED_TRANSACTIONS or now - stat.modified_ms / 1000 > DECIDED_TRANSACTION_SECONDS:
            with contextlib.suppress(NoNode, NotEmpty):
                keeper.delete(table.transaction(name))
                changed += 1
    return changed


def _forget_keys(keeper: Keeper, table: TablePaths, name: str, keys: Sequence[str]) -> None:
    """Deletes the keys of a decided transaction, which its log entry has made needless."""
    for packet in split_into_multis([Delete(table.staged_part(name, key)) for key in keys], operation_bytes):
        with contextlib.suppress(MultiFailed, KeeperConnectionLoss):
            keeper.multi(packet)


def count_finished_replicas(keeper: Keeper, table: TablePaths, name: str) -> int:
    """Returns on how many replicas the committed transaction's rows are active."""
    return sum(
        not is_unfinished_on(keeper, table.replica(replica), name) for replica in keeper.children(table.replicas)
    )


def is_unfinished_on(keeper: Keeper, replica: ReplicaPaths, name: str) -> bool:
    """Tells whether the replica still has to pull or execute the transaction's entry."""
    lost, pointer = keeper.get_many([replica.is_lost, replica.log_pointer])
    if lost is None or lost[0] == b"1" or pointer is None or not pointer[0]:
        return True
    log = replica.table.log
    paths = [f"{log}/{entry}" for entry in keeper.children(log) if parse_sequence_number(entry) >= int(pointer[0])]
    paths += [replica.queue_entry(entry) for entry in keeper.children_many([replica.queue])[0] or ()]
    return any(
        answer is not None and LogEntry.parse(answer[0]).transaction == name for answer in keeper.get_many(paths)
    )


def parse_versioned_json(data: bytes, what: str) -> dict[str, Any]:
    """Parses a JSON object of the known version. Raises ``CorruptionError``."""
    try:
        document = json.loads(data)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"Cannot read {what} {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error
    return dict(document)
