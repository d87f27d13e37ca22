"""What YTsaurus promises of replication, and the tests that show it here."""

from __future__ import annotations

from tests.links.promises.shown_by import (
    ACKNOWLEDGED,
    ALTERED,
    ARRIVES,
    BOUNDS,
    CONSOLIDATION,
    CONSTANT,
    COPIED,
    COPY_BESIDE_WRITES,
    CRASH,
    DATABASE,
    FIELDS,
    FOLLOWS,
    FRESHNESS,
    KEPT_WHILE_AWAY,
    LAG,
    NO_LOSS,
    ONE_COMMIT,
    ONE_TRANSACTION,
    POSITIONS,
    PREFIX,
    REWRITTEN,
    SHOWN,
    TAKES_OVER,
    VERSIONS,
    WHOLE_LIFE,
    WRITES_REFUSED,
    Lines,
)

LINES: Lines = {
    "commands on a table of several origins": (
        "test_commands_from::test_commands_touch_rows_of_all_origins",
        "test_commands_from::test_rows_that_are_older_than_the_setting",
        "test_commands_from::test_partitions_are_dropped",
        "test_command_histories::test_many_histories",
        "test_command_chaos::test_all_clusters_end_with_the_same_rows",
    ),
    "automatic switching of the synchronous copy": (
        "test_link_tracker::test_a_silent_target_is_replaced_once_and_the_table_is_never_without_one",
        "test_tracker_decisions::test_the_next_link_is_enabled_before_the_former_one_is_disabled",
        "test_tracker_decisions::test_never_too_few_never_too_many_and_nobody_comes_or_goes_for_one_look",
    ),
    "`enable_replicated_table_tracker`, off by default": ("test_link_tracker::test_it_is_off_until_a_table_wants_it",),
    "`min_sync_replica_count`, `max_sync_replica_count`, and what holds if they are missing": (
        "test_tracker_decisions::test_bounds_that_are_missing",
    ),
    "a copy that is left out of the tracker, and shows it": (
        "test_link_tracker::test_a_link_with_enable_tracker_0_is_left_alone",
    ),
    "collocations: tables with the same synchronous clusters": (
        "test_link_tracker::test_the_tables_of_a_collocation_change_together",
    ),
    "preferred clusters": ("test_link_tracker::test_a_preferred_cluster_comes_back_when_it_was_healthy_for_the_delay",),
    "changes wait in a queue, and go when every copy has them": (ACKNOWLEDGED,),
    "a copy on the source's own cluster": (
        "test_one_way::test_a_link_inside_one_cluster",
        "test_link_statements::test_a_table_is_not_linked_to_itself",
    ),
    "copies on other clusters": (ARRIVES,),
    "copies do not disturb each other": (CONSTANT, BOUNDS, "test_topologies::test_broadcast"),
    "clusters are updated one after the other": (
        "test_link_protocol::test_the_smaller_version_counts",
        "test_link_protocol::test_what_a_newer_version_adds_is_ignored",
        "test_link_routes::test_a_version_that_is_too_new_is_refused",
    ),
    "tables of every kind, sorted or ordered": ("test_every_engine::test_a_copy_of_every_engine",),
    "a writer meets the same rules as without copies": (
        "test_target_writes::test_a_source_is_written",
        "test_commits_check_the_gate::test_a_gate_that_moves_without_closing_lets_the_commit_pass",
    ),
    "the objects that describe copies and their state": (WHOLE_LIFE, FIELDS),
    "the source's schema is no wider than a copy's": (
        "test_target_schema::test_into_which_types_values_go",
        "test_target_schema::test_what_is_not_covered_pauses_and_goes_on_by_itself",
    ),
    "a migration widens the copies first": (REWRITTEN,),
    "what one transaction writes": (ONE_TRANSACTION, "test_link_adversaries::test_a_transaction_is_one_change"),
    "a transaction over tables is seen whole; a snapshot of several tables": (
        "test_link_groups::test_every_select_is_a_prefix",
        "test_link_group_statements::test_nothing_is_shown_before_all_tables_have_it",
    ),
    "what was accepted is delivered": (NO_LOSS, "engine/simulator/test_linked_clusters::test_promises_hold"),
    "what a copy cannot take gathers at the source": (
        "test_link_pauses::test_a_disabled_link_keeps_its_place",
        KEPT_WHILE_AWAY,
    ),
    "a replicator for each copy": (TAKES_OVER,),
    "delivery and position are one transaction": (ONE_COMMIT, CRASH),
    "exactly once": (CRASH, "test_batch_crashes::test_a_lost_answer"),
    "in the order of the commits": (
        "test_change_source::test_changes_of_every_kind_come_once_and_in_order",
        PREFIX,
    ),
    "a reader can tell an asynchronous copy's age": (FRESHNESS,),
    "copies are read directly": (ARRIVES,),
    "a data centre is lost, and reads and writes go on": (
        "test_switching::test_a_forced_promotion_and_the_old_source_back",
        "test_switching::test_a_sibling_that_is_further_ahead_gives_its_tail",
    ),
    "copies keep the source's times": (
        VERSIONS,
        "test_batch_plans::test_the_changes_of_a_batch_are_read_back_as_what_they_were",
    ),
    "a copy is not written": (
        WRITES_REFUSED,
        "test_one_way::test_writes_at_the_target_are_refused_by_the_links_name",
    ),
    "`upstream_replica_id`; zeros let others write": (
        "test_link_settings::test_settings_say_who_may_write",
        "test_link_nodes::test_the_gate_says_who_may_write",
    ),
    "it guards against a second upstream": (
        "test_link_statements::test_a_second_source_is_refused_unless_both_links_let_others_write",
    ),
    "it can be changed later": (
        "test_link_nodes::test_a_link_changes",
        "test_link_nodes::test_one_of_several_links_cannot_be_closed_to_others",
    ),
    "a copy is read as of a place that the source gave": (FRESHNESS,),
    "`get-in-sync-replicas`": ("test_link_ddl::test_the_source_tells_which_clusters_have_a_position",),
    "a copy lags": (LAG,),
    "synchronous and asynchronous copies of one table": ("test_sync_inserts::test_two_targets",),
    "a commit is in all synchronous copies, or fails": (
        "test_sync_inserts::test_an_insert_waits_for_every_replica_of_the_target",
        "test_sync_inserts::test_nothing_is_stored_while_the_target_cannot_take_it",
        "test_sync_inserts::test_an_answer_in_time_tells_that_the_rows_are_stored",
    ),
    "writing without any synchronous copy": (
        "test_sync_inserts::test_nothing_is_stored_while_the_target_cannot_take_it",
    ),
    "`require_sync_replica`": ("test_sync_inserts::test_nothing_is_stored_while_the_target_cannot_take_it",),
    "mode at creation, and changed later": (
        "test_sync_inserts::test_an_insert_waits_for_every_replica_of_the_target",
        "test_sync_states::test_whatever_is_asked_for",
    ),
    "deletes in synchronous mode": ("test_sync_inserts::test_an_answer_in_time_tells_that_the_rows_are_stored",),
    "a copy is made by naming cluster and table": (SHOWN,),
    "the copy's table is made by hand, or with the database": (DATABASE,),
    "a new copy that waits": ("test_link_ddl::test_a_link_waits_while_it_is_disabled",),
    "all copies, and one, are shown": (SHOWN,),
    "a copy is removed": (
        "test_link_statements::test_a_drop_while_the_source_is_away_says_what_to_run_there",
        "test_link_statements::test_a_drop_at_the_source_ends_the_keeping",
    ),
    "`start_replication_timestamp`: later changes alone": (
        FOLLOWS,
        "test_link_settings::test_a_start_is_a_word_or_a_position",
    ),
    "a table with rows gets a copy while it is written": (COPIED, COPY_BESIDE_WRITES),
    "a copy is enabled and disabled": (
        ALTERED,
        "test_link_runner::test_a_disabled_link_rests_and_keeps_its_place",
    ),
    "take a place now, wait until a copy has it, read": (
        WHOLE_LIFE,
        "test_current_position::test_every_commit_moves_it",
        "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
    ),
    "`preserve_timestamps = false`: many sources into one table": (CONSOLIDATION,),
    "… and rows that clients write there": (CONSOLIDATION,),
    "throttle: so many bytes in a period": (
        "test_links_in_one_process::test_a_link_brings_no_more_than_its_throttle_lets",
    ),
    "the statement that makes a copy is shown": ("test_link_statements::test_the_shown_statement_makes_the_same_link",),
    "field: cluster and table of the copy": (SHOWN,),
    "field: state": (ALTERED,),
    "field: mode": (FIELDS,),
    "field: lag": (LAG, FIELDS),
    "field: errors": ("test_link_runner::test_a_change_that_fails_five_times_in_a_row_pauses", FIELDS),
    "field: `preserve_timestamps`": (FIELDS,),
    "field: start position": ("test_link_statements::test_the_shown_statement_makes_the_same_link", FIELDS),
    "a source's transaction is never parted": (
        "test_batch_plans::test_any_batch_is_one_multi_and_leaves_the_ids_that_its_changes_leave",
        "test_batch_plans::test_a_transaction_of_thousands_of_parts_becomes_a_list",
    ),
    "fields of each stream: place, lag, error": (POSITIONS,),
    "field: place of the copy, which only grows": ("test_positions_and_vectors::test_a_vector_never_goes_back",),
    "field: newest place of the source": (WHOLE_LIFE, FIELDS),
    "field: what was given up of the queue": ("test_outbox::test_a_release_never_moves_back", FIELDS),
    "stop writes, wait until the queue is empty, make the table anew": (
        "test_refuse_inserts::test_no_insert_is_acknowledged_after_the_alter_has_returned",
        "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
    ),
}
