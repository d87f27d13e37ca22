"""Every znode path of a table, built and parsed here and nowhere else.

The nodes of a table::

    <root>/metadata columns log/log-N blocks/<block id> block_numbers/<partition>/block-N
           quorum/status quorum/last_part quorum/failed_parts/<part> quorum/parallel/<part>
           mutations/mutation-N alter_partition_version lost_part_count scans/<name> dropped_blocks/<partition>
           lost_blocks/<part> transactions/<name>/<key> open_transactions/<name> applications/<name> restored
           commit_time
           links/gate links/vector links/marks links/in/<name>{,/leader,/status} links/out/<cluster>.<name>
           links/lists/<name>/<piece> definitions/<version>
           replicas/<name>/…

The nodes of a replica::

    replicas/<name>/host identity is_active log_pointer queue/queue-N parts/<part> is_lost flags shown_cut
           metadata columns metadata_version mutation_pointer link_keeping
           min_unprocessed_insert_time max_processed_insert_time

N is ZooKeeper's ten-digit sequence number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from coordination.nodes.link_paths import LinkPaths
from parts.common.errors import UserError
from parts.common.safe_names import check_znode_path, is_znode_name

_SEQUENTIAL = re.compile(r"(log|queue|block|mutation)-(\d{10})\Z")


def parse_sequence_number(name: str) -> int:
    """Returns the N of ``log-N``, ``queue-N``, ``block-N`` or ``mutation-N`` (a name or a whole path)."""
    match = _SEQUENTIAL.search(name)
    if match is None:
        raise ValueError(f"not a sequential node: {name!r}")
    return int(match.group(2))


def log_entry_name(index: int) -> str:
    return f"log-{index:010d}"


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths of a table's nodes.

    ``root`` is the table's ZooKeeper path with macros substituted, e.g. ``/clickhouse/tables/01-02/hits``.
    """

    root: str

    def __post_init__(self) -> None:
        check_znode_path("ZooKeeper path of a table", self.root)

    @property
    def metadata(self) -> str:
        """The definition that all replicas share, without the columns: engine, keys, granularity."""
        return f"{self.root}/metadata"

    @property
    def columns(self) -> str:
        """The columns; its version is that of the definition."""
        return f"{self.root}/columns"

    @property
    def log(self) -> str:
        """The log that all replicas follow; its version moves with merges, drops, failed quorums, lost parts."""
        return f"{self.root}/log"

    @property
    def log_prefix(self) -> str:
        """The path for a sequential create of a log entry."""
        return f"{self.root}/log/log-"

    def log_entry(self, index: int) -> str:
        """One entry (``coordination.log.log_entry``)."""
        return f"{self.root}/log/{log_entry_name(index)}"

    @property
    def blocks(self) -> str:
        """The ids of inserted blocks."""
        return f"{self.root}/blocks"

    def block(self, block_id: str) -> str:
        """The part as which the block with this id was inserted (``block_ids``, ``block_views``)."""
        return f"{self.root}/blocks/{block_id}"

    @property
    def block_numbers(self) -> str:
        """The counters of block numbers. Its version moves when a partition comes or is forgotten."""
        return f"{self.root}/block_numbers"

    def partition(self, partition_id: str, first: int = 0) -> str:
        """Returns the node that counts a partition's block numbers from ``first`` on (``partition_nodes``).

        Its version guards the partition's block ids (``block_ids``).
        """
        return f"{self.root}/block_numbers/{partition_id}" + (f"_{first}" if first else "")

    @property
    def quorum(self) -> str:
        """INSERTs with ``insert_quorum``."""
        return f"{self.root}/quorum"

    @property
    def quorum_status(self) -> str:
        """The part that waits for its quorum, with the replicas that have it, where one may wait at a time.
        The version of ``quorum`` moves when a requirement is lowered."""
        return f"{self.root}/quorum/status"

    @property
    def quorum_last_part(self) -> str:
        """The last part of each partition that reached its quorum, where one may wait at a time."""
        return f"{self.root}/quorum/last_part"

    @property
    def quorum_failed_parts(self) -> str:
        """Parts whose quorum was given up."""
        return f"{self.root}/quorum/failed_parts"

    def quorum_failed_part(self, part: str) -> str:
        """A part whose quorum was given up. Each replica that holds the part detaches it."""
        return f"{self.root}/quorum/failed_parts/{part}"

    @property
    def quorum_parallel(self) -> str:
        """Parts that wait for their quorum, where several may."""
        return f"{self.root}/quorum/parallel"

    def quorum_parallel_part(self, part: str) -> str:
        """A part that waits for its quorum, with the replicas that have it."""
        return f"{self.root}/quorum/parallel/{part}"

    @property
    def mutations(self) -> str:
        """Mutations; its version moves when one is created."""
        return f"{self.root}/mutations"

    @property
    def mutation_prefix(self) -> str:
        """The path for a sequential create of a mutation."""
        return f"{self.root}/mutations/mutation-"

    def mutation(self, mutation_id: str) -> str:
        """One mutation: its commands, and its block number in each partition.

        ``mutation_id`` is the N of its name.
        """
        return f"{self.root}/mutations/mutation-{mutation_id}"

    @property
    def alter_partition_version(self) -> str:
        """A node that ClickHouse has too; nothing reads it."""
        return f"{self.root}/alter_partition_version"

    @property
    def lost_part_count(self) -> str:
        """A node that ClickHouse has too; nothing reads it."""
        return f"{self.root}/lost_part_count"

    @property
    def links(self) -> str:
        """The parent of what links with other clusters keep."""
        return f"{self.root}/links"

    @property
    def linked(self) -> LinkPaths:
        """The nodes of a table that has links, or had some."""
        return LinkPaths(self.root)

    @property
    def scans(self) -> str:
        """The parent of the records of distributed scans (``scan_records``)."""
        return f"{self.root}/scans"

    def scan(self, name: str) -> str:
        """The parts of one execution; behind `<name>-cut` those at the cut that it reads (``cut_records``)."""
        return f"{self.root}/scans/{name}"

    @property
    def dropped_blocks(self) -> str:
        """The parent of the block numbers up to which partitions were dropped (``dropped_blocks``)."""
        return f"{self.root}/dropped_blocks"

    def dropped_block(self, partition_id: str) -> str:
        """The last block number of the partition that a drop took away."""
        return f"{self.root}/dropped_blocks/{partition_id}"

    @property
    def lost_blocks(self) -> str:
        """The parent of the names of parts that were lost with their rows (``dropped_blocks``)."""
        return f"{self.root}/lost_blocks"

    def lost_block(self, part: str) -> str:
        """A part that was lost with its rows."""
        return f"{self.root}/lost_blocks/{part}"

    @property
    def transactions(self) -> str:
        """The parent of transactions: their staged parts and outcomes (``transaction_nodes``)."""
        return f"{self.root}/transactions"

    def transaction(self, name: str) -> str:
        """The state of one transaction."""
        return f"{self.root}/transactions/{name}"

    def staged_part(self, transaction: str, key: str) -> str:
        """One part that was staged in it: which replica has it, and where."""
        return f"{self.root}/transactions/{transaction}/{key}"

    @property
    def open_transactions(self) -> str:
        """The parent of undecided transactions.

        The version of each node counts the INSERTs into the transaction (``transaction_nodes``).
        """
        return f"{self.root}/open_transactions"

    def open_transaction(self, name: str) -> str:
        """One undecided transaction."""
        return f"{self.root}/open_transactions/{name}"

    @property
    def applications(self) -> str:
        """The parent of the last version that each application committed (``application_versions``)."""
        return f"{self.root}/applications"

    def application(self, name: str) -> str:
        """The last version that one application committed."""
        return f"{self.root}/applications/{name}"

    @property
    def gate(self) -> str:
        """The epoch, the links and the bars of the table (``gate``); every commit checks its version."""
        return f"{self.root}/links/gate"

    @property
    def commit_time(self) -> str:
        """The largest commit time in the log entries that were trimmed (``commit_times``)."""
        return f"{self.root}/commit_time"

    @property
    def dropped(self) -> str:
        """An ephemeral node, held by the session that removes a dropped table."""
        return f"{self.root}/dropped"

    @property
    def restored(self) -> str:
        """A node that exists if SYSTEM RESTORE REPLICA created the table, until a replica is forgotten."""
        return f"{self.root}/restored"

    @property
    def replicas(self) -> str:
        """The replicas. Its version moves when one comes."""
        return f"{self.root}/replicas"

    def replica(self, name: str) -> ReplicaPaths:
        return ReplicaPaths(self, name)

    @property
    def parent(self) -> str:
        """The path above the table's root; ``"/"`` if the root is at the top."""
        return self.root.rpartition("/")[0] or "/"


@dataclass(frozen=True, slots=True)
class ReplicaPaths:
    """The paths of the nodes of one replica of a table."""

    table: TablePaths
    name: str

    def __post_init__(self) -> None:
        if not is_znode_name(self.name):
            raise UserError(
                "NO_REPLICA_NAME_GIVEN",
                f"Replica name must be a znode's name (not empty, . or .., without '/'), got {self.name[:200]!r}",
            )

    @property
    def root(self) -> str:
        """The replica."""
        return f"{self.table.root}/replicas/{self.name}"

    @property
    def host(self) -> str:
        """The addresses of the server; its version grows with every activation (``replica_activation``)."""
        return f"{self.root}/host"

    @property
    def identity(self) -> str:
        """The node that names the data directory the replica belongs to (``replica_activation``)."""
        return f"{self.root}/identity"

    @property
    def is_active(self) -> str:
        """Ephemeral: there while the server has its session; holds the identity of its data."""
        return f"{self.root}/is_active"

    @property
    def link_keeping(self) -> str:
        """The changes of a linked table that the replica keeps (``coordination.links.stream.kept_changes``)."""
        return f"{self.root}/link_keeping"

    @property
    def shown_cut(self) -> str:
        """The cut of a group of links that the replica shows (``coordination.links.groups.told_cut``)."""
        return f"{self.root}/shown_cut"

    @property
    def log_pointer(self) -> str:
        """The next log entry that the replica has to copy."""
        return f"{self.root}/log_pointer"

    @property
    def queue(self) -> str:
        """The entries that the replica has not carried out yet."""
        return f"{self.root}/queue"

    @property
    def queue_prefix(self) -> str:
        """The path for a sequential create of a queue entry."""
        return f"{self.root}/queue/queue-"

    def queue_entry(self, name: str) -> str:
        """A log entry that was copied, as long as it is not done."""
        return f"{self.root}/queue/{name}"

    @property
    def parts(self) -> str:
        """The parts that the replica has."""
        return f"{self.root}/parts"

    def part(self, part: str) -> str:
        """One part of the replica: its content hash, rows and bytes (``part_record``)."""
        return f"{self.root}/parts/{part}"

    @property
    def dropped(self) -> str:
        """An ephemeral node, held by the session that removes a dropped replica."""
        return f"{self.root}/dropped"

    @property
    def is_lost(self) -> str:
        """1 if the replica was away for too long: it must be cloned."""
        return f"{self.root}/is_lost"

    @property
    def flags(self) -> str:
        """Flags that operators set."""
        return f"{self.root}/flags"

    @property
    def force_restore_data(self) -> str:
        """If it exists, the next start repairs a suspicious difference from other replicas."""
        return f"{self.root}/flags/force_restore_data"

    @property
    def restoring(self) -> str:
        """A flag that exists while SYSTEM RESTORE REPLICA is running (``recovery.restore_replica``)."""
        return f"{self.root}/flags/restoring"

    @property
    def metadata(self) -> str:
        """The table's ``metadata`` as the replica has taken it."""
        return f"{self.root}/metadata"

    @property
    def columns(self) -> str:
        """The table's ``columns`` as the replica has taken them."""
        return f"{self.root}/columns"

    @property
    def metadata_version(self) -> str:
        """The version of the definition that the replica has."""
        return f"{self.root}/metadata_version"

    @property
    def last_alter(self) -> str:
        """The id of the last ALTER that this replica wrote."""
        return f"{self.root}/last_alter"

    @property
    def mutation_pointer(self) -> str:
        """The last mutation up to which all are done here."""
        return f"{self.root}/mutation_pointer"

    @property
    def min_unprocessed_insert_time(self) -> str:
        """The time of the oldest INSERT in the queue: how far the replica is behind."""
        return f"{self.root}/min_unprocessed_insert_time"

    @property
    def max_processed_insert_time(self) -> str:
        """The time of the newest INSERT that is here."""
        return f"{self.root}/max_processed_insert_time"
