"""What the documents of YTsaurus, YugabyteDB, Tarantool and ClickHouse promise of replication, and who shows it here.

A line is one promise, option, monitored field or listed limitation, in our words. ``PROMISES`` names the tests that
show it, as ``file::test`` below ``tests/links``, or below ``tests`` if a folder is named. ``OPEN`` says why a line is
not kept. ``LATER`` lists what needs a tracker or switching over, which are not there yet.
Lines that mean nothing here (tablets, sequences, snapshot timestamps, encryption at rest) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

Lines = Mapping[str, tuple[str, ...]]

_ARRIVES = "test_one_way::test_rows_commands_and_their_order_arrive"
_PREFIX = "test_link_histories::test_targets_show_a_prefix_of_the_source_after_every_batch"
_ONE_TRANSACTION = "test_batch_commit::test_a_transaction_is_one_change"
_ONE_COMMIT = "test_batch_commit::test_two_leaders_apply_a_batch_once"
_CRASH = "test_batch_crashes::test_a_crash"
_NO_LOSS = "test_keeping::test_a_crash_loses_no_change_and_no_block"
_FOLLOWS = "test_link_runner::test_what_is_committed_after_the_link_was_made_is_brought_once"
_TAKES_OVER = "test_link_runner::test_one_server_leads_and_another_takes_over"
_COPIED = "test_bootstrap_between_clusters::test_a_table_with_rows_is_copied_and_followed"
_COPY_BESIDE_WRITES = "test_bootstrap_between_clusters::test_the_source_goes_on_while_it_is_copied"
_COPIED_ANEW = "test_bootstrap::test_a_late_target_is_copied_anew_and_keeps_its_rows_until_then"
_FILES = "test_bootstrap::test_an_empty_target_gets_parts_ids_vector_and_its_place"
_SHOWN = "test_link_statements::test_a_link_is_made_shown_and_dropped"
_ALTERED = "test_link_statements::test_alter_changes_settings"
_WHOLE_LIFE = "test_link_ddl::test_a_link_from_its_first_to_its_last_statement"
_FRESHNESS = "test_link_ddl::test_a_query_says_how_fresh_a_target_must_be"
_POSITIONS = "test_link_statements::test_positions_of_a_table_are_its_own_and_those_of_its_vector"
_FIELDS = "test_linked_pair::test_every_field_is_shown_at_both_ends"
_DATABASE = "test_database_links::test_tables_are_made_and_linked_now_and_later"
_LAG = "test_link_decisions::test_the_lag_is_the_age_of_the_oldest_missing_change"
_LAG_STAYS = "test_link_decisions::test_the_lag_is_0_while_nothing_is_missing_and_counts_while_disconnected"
_WRITES_REFUSED = "test_target_writes::test_writes_are_refused_and_change_nothing"
_ACKNOWLEDGED = "test_keeping_blocks::test_acknowledged_blocks_are_given_up"
_CONSTANT = "test_keeping::test_a_link_that_never_asks_costs_zookeeper_a_constant"
_BOUNDS = "test_keeping_blocks::test_an_outbox_keeps_within_its_bounds"
_PAUSES = "test_link_pauses::test_a_column_that_the_target_lacks"
_REWRITTEN = "test_target_schema::test_rows_are_written_anew_where_types_are_wider_and_columns_more"
_DDL = "test_target_schema::test_a_copy_stays_a_copy"
_VERSIONS = "test_last_writer_batches::test_versions_and_tombstones_travel"
_LATER_WINS = "test_last_writer_rows::test_the_largest_version_stays_in_whatever_order"
_TWO_WRITERS = "test_linked_pair::test_two_clusters_agree_on_the_last_writer"
_TIMES = "test_commit_times::test_what_begins_after_a_commit_is_later"
_TWO_WAYS = "test_topologies::test_two_ways"
_MESH = "test_topologies::test_mesh"
_CHAIN = "test_topologies::test_chain"
_CONSOLIDATION = "test_topologies::test_consolidation"
_ANSWERS = "test_links_in_one_process::test_any_server_of_the_source_answers_for_it"
_KEPT_WHILE_AWAY = "test_keeping_blocks::test_a_merged_block_can_still_be_sent"
_START_TIMEOUT = "test_link_start::test_when_the_time_is_over_reads_work_and_it_says_what_is_missing"
_GAP = "test_link_runner::test_a_gap_stops_the_link_and_names_the_hole"

PROMISES: Mapping[str, Lines] = {
    "YTsaurus": {
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
        "`enable_replicated_table_tracker`, off by default": (
            "test_link_tracker::test_it_is_off_until_a_table_wants_it",
        ),
        "`min_sync_replica_count`, `max_sync_replica_count`, and what holds if they are missing": (
            "test_tracker_decisions::test_bounds_that_are_missing",
        ),
        "a copy that is left out of the tracker, and shows it": (
            "test_link_tracker::test_a_link_with_enable_tracker_0_is_left_alone",
        ),
        "collocations: tables with the same synchronous clusters": (
            "test_link_tracker::test_the_tables_of_a_collocation_change_together",
        ),
        "preferred clusters": (
            "test_link_tracker::test_a_preferred_cluster_comes_back_when_it_was_healthy_for_the_delay",
        ),
        "changes wait in a queue, and go when every copy has them": (_ACKNOWLEDGED,),
        "a copy on the source's own cluster": (
            "test_one_way::test_a_link_inside_one_cluster",
            "test_link_statements::test_a_table_is_not_linked_to_itself",
        ),
        "copies on other clusters": (_ARRIVES,),
        "copies do not disturb each other": (_CONSTANT, _BOUNDS, "test_topologies::test_broadcast"),
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
        "the objects that describe copies and their state": (_WHOLE_LIFE, _FIELDS),
        "the source's schema is no wider than a copy's": (
            "test_target_schema::test_into_which_types_values_go",
            "test_target_schema::test_what_is_not_covered_pauses_and_goes_on_by_itself",
        ),
        "a migration widens the copies first": (_REWRITTEN,),
        "what one transaction writes": (_ONE_TRANSACTION, "test_link_adversaries::test_a_transaction_is_one_change"),
        "a transaction over tables is seen whole; a snapshot of several tables": (
            "test_link_groups::test_every_select_is_a_prefix",
            "test_link_group_statements::test_nothing_is_shown_before_all_tables_have_it",
        ),
        "what was accepted is delivered": (_NO_LOSS, "engine/simulator/test_linked_clusters::test_promises_hold"),
        "what a copy cannot take gathers at the source": (
            "test_link_pauses::test_a_disabled_link_keeps_its_place",
            _KEPT_WHILE_AWAY,
        ),
        "a replicator for each copy": (_TAKES_OVER,),
        "delivery and position are one transaction": (_ONE_COMMIT, _CRASH),
        "exactly once": (_CRASH, "test_batch_crashes::test_a_lost_answer"),
        "in the order of the commits": (
            "test_change_source::test_changes_of_every_kind_come_once_and_in_order",
            _PREFIX,
        ),
        "a reader can tell an asynchronous copy's age": (_FRESHNESS,),
        "copies are read directly": (_ARRIVES,),
        "a data centre is lost, and reads and writes go on": (
            "test_switching::test_a_forced_promotion_and_the_old_source_back",
            "test_switching::test_a_sibling_that_is_further_ahead_gives_its_tail",
        ),
        "copies keep the source's times": (
            _VERSIONS,
            "test_batch_plans::test_the_changes_of_a_batch_are_read_back_as_what_they_were",
        ),
        "a copy is not written": (
            _WRITES_REFUSED,
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
        "a copy is read as of a place that the source gave": (_FRESHNESS,),
        "`get-in-sync-replicas`": ("test_link_ddl::test_the_source_tells_which_clusters_have_a_position",),
        "a copy lags": (_LAG,),
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
        "a copy is made by naming cluster and table": (_SHOWN,),
        "the copy's table is made by hand, or with the database": (_DATABASE,),
        "a new copy that waits": ("test_link_ddl::test_a_link_waits_while_it_is_disabled",),
        "all copies, and one, are shown": (_SHOWN,),
        "a copy is removed": (
            "test_link_statements::test_a_drop_while_the_source_is_away_says_what_to_run_there",
            "test_link_statements::test_a_drop_at_the_source_ends_the_keeping",
        ),
        "`start_replication_timestamp`: later changes alone": (
            _FOLLOWS,
            "test_link_settings::test_a_start_is_a_word_or_a_position",
        ),
        "a table with rows gets a copy while it is written": (_COPIED, _COPY_BESIDE_WRITES),
        "a copy is enabled and disabled": (
            _ALTERED,
            "test_link_runner::test_a_disabled_link_rests_and_keeps_its_place",
        ),
        "take a place now, wait until a copy has it, read": (
            _WHOLE_LIFE,
            "test_current_position::test_every_commit_moves_it",
            "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
        ),
        "`preserve_timestamps = false`: many sources into one table": (_CONSOLIDATION,),
        "… and rows that clients write there": (_CONSOLIDATION,),
        "throttle: so many bytes in a period": (
            "test_links_in_one_process::test_a_link_brings_no_more_than_its_throttle_lets",
        ),
        "the statement that makes a copy is shown": (
            "test_link_statements::test_the_shown_statement_makes_the_same_link",
        ),
        "field: cluster and table of the copy": (_SHOWN,),
        "field: state": (_ALTERED,),
        "field: mode": (_FIELDS,),
        "field: lag": (_LAG, _FIELDS),
        "field: errors": ("test_link_runner::test_a_change_that_fails_five_times_in_a_row_pauses", _FIELDS),
        "field: `preserve_timestamps`": (_FIELDS,),
        "field: start position": ("test_link_statements::test_the_shown_statement_makes_the_same_link", _FIELDS),
        "a source's transaction is never parted": (
            "test_batch_plans::test_any_batch_is_one_multi_and_leaves_the_ids_that_its_changes_leave",
            "test_batch_plans::test_a_transaction_of_thousands_of_parts_becomes_a_list",
        ),
        "fields of each stream: place, lag, error": (_POSITIONS,),
        "field: place of the copy, which only grows": ("test_positions_and_vectors::test_a_vector_never_goes_back",),
        "field: newest place of the source": (_WHOLE_LIFE, _FIELDS),
        "field: what was given up of the queue": ("test_outbox::test_a_release_never_moves_back", _FIELDS),
        "stop writes, wait until the queue is empty, make the table anew": (
            "test_refuse_inserts::test_no_insert_is_acknowledged_after_the_alter_has_returned",
            "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
        ),
    },
    "YugabyteDB": {
        "transactional mode: reads at a safe time, a prefix over tables": (
            "test_link_groups::test_every_select_is_a_prefix",
            "test_link_group_statements::test_a_server_that_starts_shows_no_half_of_a_cut",
        ),
        "safe time of a group, and its lag": ("test_link_group_statements::test_groups_are_shown_and_end",),
        "compression": ("test_link_routes::test_long_answers_are_compressed_for_whoever_reads_that",),
        "triggers for replicated rows": (
            "test_link_views::test_views_see_what_a_link_brings",
            "test_link_views::test_a_crash_doubles_nothing",
        ),
        "writes pay nothing for an asynchronous flow": (
            "test_commits_check_the_gate::test_an_insert_takes_two_requests",
        ),
        "TLS": (
            "test_links_over_tls::test_a_link_runs_through_a_proxy_that_speaks_tls",
            "test_links_over_tls::test_a_server_that_cannot_prove_who_it_is_gets_nothing",
        ),
        "unequal numbers of shards": ("test_shards::test_unequal_numbers_of_shards_are_refused_by_name",),
        "one or more flows of one direction": ("test_topologies::test_broadcast", _CHAIN),
        "two flows replicate both ways, each change once": (_TWO_WAYS,),
        "also inside one cluster (a limitation there)": ("test_link_ddl::test_a_link_inside_one_cluster",),
        "some tables, or a whole database": ("test_link_ddl::test_a_database_is_followed",),
        "the table is split otherwise at the target": (
            "test_target_schema::test_another_partition_key_takes_inserts_alone",
        ),
        "a transaction's writes come together (a limitation there)": (_ONE_TRANSACTION,),
        "rows keep their commit time": (_VERSIONS,),
        "a flow takes no locks at the target": ("test_batch_commit::test_own_rows_and_those_of_the_link",),
        "readers see a prefix of each table (a limitation there)": (_PREFIX,),
        "the last writer wins by a hybrid time": (
            _TIMES,
            "test_last_writer::test_two_servers_and_one_millisecond",
            "test_last_writer::test_zookeepers_clock_steps_back",
        ),
        "reads do not wait, unless they ask to": (_FRESHNESS,),
        "no torn transactions after the loss of a source": (_ONE_TRANSACTION, _CRASH),
        "tables without flows are as they were": (
            "test_last_writer::test_tables_without_the_setting_pay_nothing",
            "test_commits_check_the_gate::test_an_insert_takes_two_requests",
        ),
        "the source's open transactions are not waited for": (
            "test_change_source::test_a_command_waits_for_a_lower_block_and_a_block_does_not",
            "test_link_adversaries::test_an_open_quorum_is_named",
        ),
        "pollers run in the target": (
            _TAKES_OVER,
            "test_one_way::test_the_leader_is_killed_and_the_other_server_goes_on",
        ),
        "they read a log, not the storage": (
            _KEPT_WHILE_AWAY,
            "test_journal::test_records_are_read_as_they_were_appended",
        ),
        "a request says where to go on, an answer where it ends": (
            "test_link_protocol::test_a_request_is_read_back",
            "test_link_protocol::test_an_answer_is_read_back",
        ),
        "checkpoints; exactly once instead of at least once": (_CRASH, _ONE_COMMIT),
        "one poller reads a source once": (
            _TAKES_OVER,
            "test_links_in_one_process::test_idle_links_wait_for_news_together",
        ),
        "rows and commit time are one record": ("test_link_adversaries::test_what_has_one_zxid_is_one_change",),
        "what came from outside is marked": (
            _CHAIN,
            "test_link_histories::test_a_relay_that_sends_a_batch_as_its_own_change_is_noticed",
        ),
        "transactions come in the source's order (a limitation there)": (_PREFIX,),
        "idle tables move on, too": (
            "test_links_in_one_process::test_idle_links_wait_for_news_together",
            "test_link_adversaries::test_an_idle_table_stays_where_it_is",
        ),
        "the schemas differ (a limitation there)": (_REWRITTEN,),
        "hidden metadata differ (a limitation there)": (
            _REWRITTEN,
            "test_bootstrap_between_clusters::test_a_target_of_another_definition_gets_the_rows",
        ),
        "rows are not translated where nothing differs": (
            _DDL,
            "test_target_schema::test_a_replacing_target_takes_files_of_a_plain_source",
        ),
        "a schema change by hand pauses, and goes on by itself": (_PAUSES,),
        "schema changes travel (future there)": (_DDL, "test_target_schema::test_a_wider_target_gets_what_it_lacks"),
        "a source with rows: copy, then stream from before the copy": (
            _COPIED,
            "test_bootstrap_giver::test_a_mutation_that_is_not_done_is_waited_for",
            "test_bootstrap_then_stream::test_what_was_copied_and_what_followed_is_the_source",
        ),
        "the copy is of files (future there)": (_FILES,),
        "a standby that is read nearby": (_ARRIVES, "test_one_way::test_a_row_is_there_soon_after_it_was_acknowledged"),
        "both sides write, the last writer wins": (_TWO_WRITERS,),
        "broadcast (a limitation there)": ("test_topologies::test_broadcast",),
        "consolidation (a limitation there)": (_CONSOLIDATION,),
        "a source's commands in a consolidation": ("test_commands_from::test_each_source_commands_its_own_rows",),
        "DDL where both ends write (a limitation there)": (
            "test_commands_from::test_alters_of_the_commanding_cluster_are_carried",
        ),
        "chain (a limitation there)": (_CHAIN,),
        "ring (a limitation there)": ("test_topologies::test_ring",),
        "equal rows of two clusters are two rows": (
            "test_topologies::test_equal_rows_of_two_clusters_are_no_duplicates",
        ),
        "whether a target is recent enough is known (the user's duty there)": (_GAP, _COPIED_ANEW),
        "a copy is of one table, not of the database (a limitation there)": (_COPIED,),
        "DDL (a limitation there)": (_DDL,),
        "DROP TABLE (a limitation there)": (
            "test_link_pauses::test_a_source_that_is_dropped_stops_the_link_and_takes_nothing",
        ),
        "TRUNCATE (a limitation there)": (
            "test_every_engine::test_truncate_and_replacements",
            "test_bootstrap_giver::test_truncate_at_the_source_during_a_bootstrap",
        ),
        "a load balancer before the source (a limitation there)": (_ANSWERS,),
        "new partitions come by themselves (a limitation there)": (_ARRIVES,),
        "single rows and transactions": (_ARRIVES, _ONE_TRANSACTION),
        "several targets, several sources": (_MESH, _CONSOLIDATION),
        "the updates of a row keep their order": (_PREFIX,),
        "a transaction is applied at once": (_ONE_TRANSACTION,),
        "the target knows up to where it has everything": (_LAG_STAYS, _POSITIONS),
        "addresses, user and password of the source": (
            "test_links_config::test_what_is_given",
            "test_linked_directories::test_every_server_knows_the_others",
        ),
        "the work is spread over servers": (
            _TAKES_OVER,
            "test_link_runner::test_a_leader_that_keeps_failing_lets_another_server_try",
        ),
        "when it is safe to go on: no rows": ("test_link_runner::test_a_link_from_an_empty_table_begins_at_once",),
        "… rows, and no link before": (_COPIED, "test_link_statements::test_a_target_with_rows_says_what_they_are"),
        "… a link before, and its place is still kept": (
            "test_link_runner::test_a_link_that_begins_at_the_vector_needs_one",
        ),
        "… a link before, and its place is not kept": (_GAP, _COPIED_ANEW),
        "a change implies all before it": (_PREFIX, "test_positions_and_vectors::test_a_vector_never_goes_back"),
        "the state of a flow is kept": (_POSITIONS, "test_link_runner::test_a_link_says_where_it_is_and_acknowledges"),
        "answers name more servers of the source": ("test_link_runner::test_answers_name_more_servers",),
        "answers name the source's cluster": ("test_link_routes::test_hello_names_the_cluster",),
        "a checkpoint with every commit": (
            _ONE_COMMIT,
            "test_batch_commit::test_an_end_without_changes_moves_the_vector_alone",
        ),
        "the later write wins, wherever the older arrives": (_LATER_WINS, _TWO_WRITERS),
        "replicated rows carry the source's time": (_VERSIONS,),
        "changes are kept while the network is cut": (
            _KEPT_WHILE_AWAY,
            "test_one_way::test_the_source_is_away_and_comes_back",
        ),
        "`log_min_seconds_to_retain`": ("test_outbox_retention::test_the_least_time_goes_before_the_rest",),
        "`log_min_segments_to_retain`": (
            "test_outbox::test_the_newest_is_never_trimmed",
            "test_journal::test_trimming_removes_whole_segments_but_never_the_newest",
        ),
        "retention of one table": (_BOUNDS,),
        "`enable_log_retention_by_op_idx`": ("test_keeping::test_both_replicas_keep_what_either_inserted",),
        "`log_stop_retaining_min_disk_mb`": (
            "test_outbox_retention::test_the_disk_goes_before_everything",
            "test_outbox::test_a_full_disk_frees_what_the_table_does_not_have_any_more",
        ),
        "`log_max_seconds_to_retain`": ("test_outbox_retention::test_the_longest_time_counts_above_the_least_only",),
        "the slowest stream decides": ("test_outbox::test_what_every_link_has_goes_after_the_least_time", _BOUNDS),
        "all replicas of the source learn the place of a target": (
            "test_keeping_blocks::test_a_restarted_replica_trims_its_outbox",
        ),
        "a stream that was deleted keeps nothing": ("test_registration::test_the_keeping_ends_with_the_last_link",),
        "a new stream keeps everything from its first moment": (
            "test_registration::test_an_insert_meanwhile_is_before_the_beginning_or_is_sent",
            "test_registration::test_a_link_begins_behind_what_was_under_way",
        ),
        "a table with rows can be linked (a limitation there)": (_COPIED,),
        "tables that come later join by themselves (a command there)": (_DATABASE,),
        "`update_min_cdc_indices_interval_secs`": (
            "test_link_routes::test_changes_wait_for_something_new_only_as_long_as_they_are_let",
        ),
        "promotion": (
            "test_switching::test_a_planned_switch_and_back",
            "test_switching::test_a_forced_promotion_and_the_old_source_back",
            "engine/simulator/test_switched_clusters::test_promises_hold",
            "test_switching_groups::test_a_group_is_switched_over_and_back",
            "test_switching_groups::test_a_group_is_promoted_at_its_last_cut_and_the_old_source_rejoins",
        ),
        "what was not replicated when a source is lost is reported": (
            "test_switching::test_a_forced_promotion_and_the_old_source_back",
            "engine/simulator/test_switched_clusters::test_promises_hold",
        ),
        "DDL that cannot be followed pauses (future there)": (
            "test_target_schema::test_an_alter_that_the_target_cannot_follow",
        ),
    },
    "Tarantool": {
        "one-way links make any topology": (_MESH, _CHAIN, "test_topologies::test_ring"),
        "one writer, or many": (_ARRIVES, _TWO_WAYS),
        "a write is confirmed before others know": ("test_commits_check_the_gate::test_an_insert_takes_two_requests",),
        "each receiver has a sender of its own": ("test_topologies::test_broadcast",),
        "a node has a UUID that stays": ("test_cluster_identity::test_it_is_made_once",),
        "what comes by two ways is taken once": (_MESH, "test_link_mesh::test_a_full_mesh_has_every_insert_once"),
        "others behind a full mesh": ("test_link_mesh::test_many_histories_of_a_mesh", _CHAIN),
        "an operation is its origin and a number": (
            "test_batch_plans::test_the_changes_of_a_batch_are_read_back_as_what_they_were",
        ),
        "vclock: the last change of each origin": (
            "test_positions_and_vectors::test_a_vector_covers_what_is_at_or_below_it",
        ),
        "JOIN: a snapshot, then the log": (_COPIED, _FILES),
        "who was a member asks for what it lacks": (
            "test_link_runner::test_a_link_that_begins_at_the_vector_needs_one",
        ),
        "the table of members": (_POSITIONS, "test_link_commands::test_the_page_draws_the_link"),
        "two cannot have one identity": (
            "test_link_adversaries::test_a_cluster_has_one_name_and_a_name_one_cluster",
            "test_link_routes::test_two_clusters_of_one_name_and_one_cluster_of_two_names_are_refused",
        ),
        "all members are configured by one command (by hand there)": (
            "test_linked_directories::test_every_server_knows_the_others",
        ),
        "equal places mean equal rows (a limitation there)": (
            "test_two_way_commands::test_commands_are_refused_and_change_nothing",
            "test_several_origins::test_the_order_of_blocks",
            _TWO_WRITERS,
        ),
        "before_replace: an expression decides which row stays": (
            "test_last_writer::test_conflict_order_takes_the_place_of_the_time",
        ),
        "tables without it pay nothing (a limitation there)": (
            "test_last_writer::test_tables_without_the_setting_pay_nothing",
        ),
        "ACK: the receiver's place goes back": ("test_link_runner::test_a_link_says_where_it_is_and_acknowledges",),
        "acknowledgements are kept for each receiver": (_ACKNOWLEDGED,),
        "wait until a receiver has a change": (
            "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
            _FRESHNESS,
        ),
        "fields: id, place and vclock of oneself": (_POSITIONS, "test_current_position::test_every_commit_moves_it"),
        "field: upstream.status": (
            "test_one_way::test_a_link_shows_its_state_on_every_server",
            "test_link_runner::test_a_source_that_does_not_answer_is_disconnected_and_comes_back",
        ),
        "field: upstream.idle": (_FIELDS,),
        "field: upstream.lag, while the master is away, too": (_LAG_STAYS,),
        "field: upstream.message": (_FIELDS, "test_one_way::test_the_source_is_away_and_comes_back"),
        "field: peer": (_SHOWN,),
        "field: downstream.vclock at the master": (_FIELDS, _ACKNOWLEDGED),
        "who lost its master connects again and goes on": (
            "test_link_runner::test_a_source_that_does_not_answer_is_disconnected_and_comes_back",
            "test_one_way::test_the_source_is_away_and_comes_back",
        ),
        "what a full disk takes of the log is told (a limitation there)": (
            "test_outbox::test_what_a_link_still_needs_and_retention_gives_up_is_told",
        ),
        "a log that is gone stops the link, which names the hole": (_GAP,),
        "what one source has lost comes from another": (
            "test_link_adversaries::test_a_hole_is_closed_by_another_source_that_has_it",
        ),
        "else the table is made anew, under the same id": (_COPIED_ANEW,),
        "ids that are gone can be cleaned up (by hand there)": (
            "test_link_statements::test_an_origin_is_forgotten_when_it_is_gone",
            "test_forgetting_origins::test_an_origin_is_forgotten_when_all_have_the_same_of_it",
            "test_forgetting_origins::test_a_cluster_that_does_not_answer_is_named_and_force_goes_on",
        ),
        "`replication_timeout`: an answer when nothing happens": (
            "test_change_source::test_a_question_waits_for_something_new",
        ),
        "four silent ones: another is asked": ("test_link_runner::test_a_silent_server_is_given_up_for_another",),
        "`replication_connect_quorum`": (
            "test_link_start::test_a_server_answers_when_it_has_caught_up",
            "test_link_start::test_two_clusters_that_start_together_do_not_wait_for_each_other",
        ),
        "`replication_connect_timeout`": (_START_TIMEOUT,),
        "`replication_sync_lag`": (
            "test_link_start::test_what_another_server_brought_must_be_visible_here",
            "test_link_start::test_what_is_visible_counts_from_the_moment_at_which_it_was_asked_for",
        ),
        "an error when that time is over": (_START_TIMEOUT,),
        "what is there is not taken again (a limitation there)": (
            "test_link_decisions::test_what_the_target_has_or_made_itself_is_left_out_and_the_place_moves_on",
            _MESH,
        ),
    },
    "ClickHouse": {
        "every engine of the family": ("test_every_engine::test_a_copy_of_every_engine",),
        "replicated and other tables side by side": (
            "test_link_statements::test_what_cannot_be_linked_is_refused_by_name",
        ),
        "INSERT and ALTER are replicated": (_ARRIVES, _DDL),
        "CREATE, DROP, ATTACH, DETACH and RENAME are not": (
            "test_link_pauses::test_a_source_that_is_dropped_stops_the_link_and_takes_nothing",
            "test_linked_pair::test_renamed_tables_stay_linked",
        ),
        "SELECT asks no ZooKeeper": ("test_every_engine::test_a_select_at_a_target_asks_no_zookeeper",),
        "an INSERT makes a bounded number of nodes": (_CONSTANT,),
        "`insert_quorum`": (
            "test_keeping::test_a_failed_quorum_is_never_sent",
            "test_link_adversaries::test_an_open_quorum_is_named",
        ),
        "a block is atomic": (_ONE_TRANSACTION, "test_batch_commit::test_inserts_arrive_once_on_all_replicas"),
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
        "a server that lost everything": ("test_keeping_blocks::test_a_block_comes_from_another_replica", _NO_LOSS),
        "metadata lost in ZooKeeper: the table is another one": (
            "test_making_gates::test_a_restored_table_has_a_new_epoch",
            "test_link_runner::test_a_source_that_lost_its_past_stops_the_link",
        ),
    },
}

OPEN: Mapping[str, str] = {}

LATER: tuple[str, ...] = (
    "YugabyteDB: provisional records at the target",
    "Tarantool: a write waits for so many nodes",
)
