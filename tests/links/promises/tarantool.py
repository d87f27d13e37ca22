"""What Tarantool promises of replication, and the tests that show it here."""

from __future__ import annotations

from tests.links.promises.shown_by import (
    ACKNOWLEDGED,
    ARRIVES,
    CHAIN,
    COPIED,
    COPIED_ANEW,
    FIELDS,
    FILES,
    FRESHNESS,
    GAP,
    LAG_STAYS,
    MESH,
    POSITIONS,
    SHOWN,
    START_TIMEOUT,
    TWO_WAYS,
    TWO_WRITERS,
    Lines,
)

LINES: Lines = {
    "one-way links make any topology": (MESH, CHAIN, "test_topologies::test_ring"),
    "one writer, or many": (ARRIVES, TWO_WAYS),
    "a write is confirmed before others know": ("test_commits_check_the_gate::test_an_insert_takes_two_requests",),
    "each receiver has a sender of its own": ("test_topologies::test_broadcast",),
    "a node has a UUID that stays": ("test_cluster_identity::test_it_is_made_once",),
    "what comes by two ways is taken once": (MESH, "test_link_mesh::test_a_full_mesh_has_every_insert_once"),
    "others behind a full mesh": ("test_link_mesh::test_many_histories_of_a_mesh", CHAIN),
    "an operation is its origin and a number": (
        "test_batch_plans::test_the_changes_of_a_batch_are_read_back_as_what_they_were",
    ),
    "vclock: the last change of each origin": (
        "test_positions_and_vectors::test_a_vector_covers_what_is_at_or_below_it",
    ),
    "JOIN: a snapshot, then the log": (COPIED, FILES),
    "who was a member asks for what it lacks": ("test_link_runner::test_a_link_that_begins_at_the_vector_needs_one",),
    "the table of members": (POSITIONS, "test_link_commands::test_the_page_draws_the_link"),
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
        TWO_WRITERS,
    ),
    "before_replace: an expression decides which row stays": (
        "test_last_writer::test_conflict_order_takes_the_place_of_the_time",
    ),
    "tables without it pay nothing (a limitation there)": (
        "test_last_writer::test_tables_without_the_setting_pay_nothing",
    ),
    "ACK: the receiver's place goes back": ("test_link_runner::test_a_link_says_where_it_is_and_acknowledges",),
    "acknowledgements are kept for each receiver": (ACKNOWLEDGED,),
    "wait until a receiver has a change": (
        "test_link_statements::test_wait_returns_when_what_the_source_had_is_applied",
        FRESHNESS,
    ),
    "fields: id, place and vclock of oneself": (POSITIONS, "test_current_position::test_every_commit_moves_it"),
    "field: upstream.status": (
        "test_one_way::test_a_link_shows_its_state_on_every_server",
        "test_link_runner::test_a_source_that_does_not_answer_is_disconnected_and_comes_back",
    ),
    "field: upstream.idle": (FIELDS,),
    "field: upstream.lag, while the master is away, too": (LAG_STAYS,),
    "field: upstream.message": (FIELDS, "test_one_way::test_the_source_is_away_and_comes_back"),
    "field: peer": (SHOWN,),
    "field: downstream.vclock at the master": (FIELDS, ACKNOWLEDGED),
    "who lost its master connects again and goes on": (
        "test_link_runner::test_a_source_that_does_not_answer_is_disconnected_and_comes_back",
        "test_one_way::test_the_source_is_away_and_comes_back",
    ),
    "what a full disk takes of the log is told (a limitation there)": (
        "test_outbox::test_what_a_link_still_needs_and_retention_gives_up_is_told",
    ),
    "a log that is gone stops the link, which names the hole": (GAP,),
    "what one source has lost comes from another": (
        "test_link_adversaries::test_a_hole_is_closed_by_another_source_that_has_it",
    ),
    "else the table is made anew, under the same id": (COPIED_ANEW,),
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
    "`replication_connect_timeout`": (START_TIMEOUT,),
    "`replication_sync_lag`": (
        "test_link_start::test_what_another_server_brought_must_be_visible_here",
        "test_link_start::test_what_is_visible_counts_from_the_moment_at_which_it_was_asked_for",
    ),
    "an error when that time is over": (START_TIMEOUT,),
    "what is there is not taken again (a limitation there)": (
        "test_link_decisions::test_what_the_target_has_or_made_itself_is_left_out_and_the_place_moves_on",
        MESH,
    ),
}
