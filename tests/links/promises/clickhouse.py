"""What ClickHouse promises of replication, and the tests that show it here."""

from __future__ import annotations

from tests.links.promises.shown_by import (
    ARRIVES,
    CONSTANT,
    DDL,
    NO_LOSS,
    ONE_TRANSACTION,
    Lines,
)

LINES: Lines = {
    "every engine of the family": ("test_every_engine::test_a_copy_of_every_engine",),
    "replicated and other tables side by side": (
        "test_link_statements::test_what_cannot_be_linked_is_refused_by_name",
    ),
    "INSERT and ALTER are replicated": (ARRIVES, DDL),
    "CREATE, DROP, ATTACH, DETACH and RENAME are not": (
        "test_link_pauses::test_a_source_that_is_dropped_stops_the_link_and_takes_nothing",
        "test_linked_pair::test_renamed_tables_stay_linked",
    ),
    "SELECT asks no ZooKeeper": ("test_every_engine::test_a_select_at_a_target_asks_no_zookeeper",),
    "an INSERT makes a bounded number of nodes": (CONSTANT,),
    "`insert_quorum`": (
        "test_keeping::test_a_failed_quorum_is_never_sent",
        "test_link_adversaries::test_an_open_quorum_is_named",
    ),
    "a block is atomic": (ONE_TRANSACTION, "test_batch_commit::test_inserts_arrive_once_on_all_replicas"),
    "a repeated block is stored once": (
        "test_batch_commit::test_block_ids_travel",
        "test_one_way::test_a_repeat_at_the_source_is_brought_once",
    ),
    "inserted rows travel, merges do not": (
        "test_link_adversaries::test_merges_and_parts_that_come_back_are_no_changes",
    ),
    "it suits distant data centres": (
        "test_link_runner::test_a_source_that_does_not_answer_is_disconnected_and_comes_back",
        "test_links_in_one_process::test_a_link_brings_no_more_than_its_throttle_lets",
    ),
    "without ZooKeeper a table waits and says so": (
        "test_link_statements::test_metrics_are_told_while_zookeeper_is_away",
    ),
    "recovery has no limit of bandwidth (a limitation there)": (
        "test_links_in_one_process::test_a_copy_brings_no_more_than_its_throttle_lets",
    ),
    "independent of sharding": ("test_shards::test_each_shard_takes_the_changes_of_its_own",),
    "`max_replica_delay_for_distributed_queries`": (
        "test_target_delay::test_readers_of_shards_pass_over_a_target_that_is_too_far_behind",
    ),
    "what is corrupt is fetched again": (
        "test_keeping_blocks::test_a_block_comes_from_another_replica",
        "test_outbox::test_damaged_and_lost_files_are_told",
    ),
    "a server that lost everything": ("test_keeping_blocks::test_a_block_comes_from_another_replica", NO_LOSS),
    "metadata lost in ZooKeeper: the table is another one": (
        "test_making_gates::test_a_restored_table_has_a_new_epoch",
        "test_link_runner::test_a_source_that_lost_its_past_stops_the_link",
    ),
}
