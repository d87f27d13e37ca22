"""What a link does next: the batch that it takes, where it begins, what a failure means, how far it is behind."""

from __future__ import annotations

import pytest

from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.batches.batch_selection import Selection, select_batch
from coordination.links.link_begin import find_begin
from coordination.links.link_failures import (
    MAX_ATTEMPTS,
    FailureKind,
    LinkFailure,
    LinkPaused,
    LinkStopped,
    assess_failure,
)
from coordination.links.link_lag import measure_lag
from coordination.links.positions import Position
from coordination.links.stream.change import Change
from coordination.links.stream.gap_check import BehindFork, Fork, Gap
from coordination.links.version_vector import VersionVector
from parts.common.errors import CorruptionError, UnavailableError, UnknownOutcomeError, UserError
from tests.links.changes import EAST, NORTH, WEST, make_block, make_change

_ANY = BatchLimits(10**9, 10**9)
_EMPTY = VersionVector()


def select(
    changes: list[Change], cuts: list[int], vector: VersionVector = _EMPTY, limits: BatchLimits = _ANY
) -> Selection:
    return select_batch(changes, cuts, vector, WEST, EAST, (), limits)


def test_a_batch_ends_at_the_last_cut_within_the_limits() -> None:
    changes = [make_change(zxid, make_block(zxid, rows=10), previous=zxid - 1) for zxid in (1, 2, 3, 4)]
    found = select(changes, [1, 2, 4], limits=BatchLimits(25, 10**9))
    assert (found.end, found.changes) == (2, tuple(changes[:2]))
    assert found.vector.applied(WEST) == 2
    assert found.stop is None


def test_what_the_target_has_or_made_itself_is_left_out_and_the_place_moves_on() -> None:
    vector = VersionVector().begin_at(Position(WEST, 2)).begin_at(Position(NORTH, 9))
    changes = [
        make_change(2, make_block(1)),
        make_change(9, make_block(2), origin=NORTH, place=3),
        make_change(5, make_block(3), origin=EAST, place=4),
    ]
    found = select(changes, [2, 3, 4], vector)
    assert (found.end, found.changes) == (4, ())


def test_a_gap_ends_the_batch_at_the_last_cut_before_it() -> None:
    changes = [
        make_change(1, make_block(1)),
        make_change(2, make_block(2), previous=1),
        make_change(5, make_block(3), previous=4),
    ]
    found = select(changes, [1, 3, 5])
    assert (found.end, found.stop) == (1 + 2, Gap(WEST, 3, 4))
    assert found.changes == tuple(changes[:2])
    behind = select(changes[2:], [5], found.vector)
    assert (behind.end, behind.stop) == (None, Gap(WEST, 3, 4))


def test_no_cut_before_the_gap_is_no_batch() -> None:
    changes = [make_change(1, make_block(1)), make_change(5, make_block(3), previous=4)]
    found = select(changes, [5])
    assert (found.end, found.changes, found.stop) == (None, (), Gap(WEST, 2, 4))


def test_a_fork_ends_the_batch() -> None:
    changes = [make_change(1, make_block(1)), make_change(2, make_block(2), previous=1)]
    found = select_batch(changes, [1, 2], VersionVector(), WEST, EAST, [Fork(WEST, 1)], _ANY)
    assert (found.end, found.stop) == (1, BehindFork(Position(WEST, 2), 1))


def test_a_link_begins_with_what_other_links_had_brought_at_that_cut() -> None:
    vector = VersionVector().begin_at(Position(NORTH, 40)).begin_at(Position(WEST, 3)).begin_at(Position(EAST, 5))
    later = make_change(40, make_block(1), origin=NORTH, place=9, previous=35)
    begin = find_begin(Position(WEST, 7), [later], [7, 9], vector, 9)
    expected = VersionVector().begin_at(Position(WEST, 7)).begin_at(Position(NORTH, 35)).begin_at(Position(EAST, 5))
    assert begin == expected


def test_a_vector_that_moved_behind_what_was_sent_is_asked_for_again() -> None:
    north = VersionVector().begin_at(Position(NORTH, 40))
    assert find_begin(Position(WEST, 7), [], [7, 9], north, 10) is None
    assert find_begin(Position(WEST, 7), [], [], north, 7) == north.begin_at(Position(WEST, 7))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnavailableError("NETWORK_ERROR", "gone"), FailureKind.RETRY),
        (UnknownOutcomeError("KEEPER_EXCEPTION", "loss"), FailureKind.RETRY),
        (UnavailableError("NOT_ENOUGH_SPACE", "full"), FailureKind.RETRY),
        (UserError("MEMORY_LIMIT_EXCEEDED", "much"), FailureKind.RETRY),
        (UserError("INCOMPATIBLE_COLUMNS", "narrow"), FailureKind.PAUSE),
        (UserError("VIOLATED_CONSTRAINT", "no"), FailureKind.PAUSE),
        (UserError("AUTHENTICATION_FAILED", "who"), FailureKind.PAUSE),
        (LinkPaused("waits"), FailureKind.PAUSE),
        (LinkStopped("gap"), FailureKind.STOP),
        (UserError("UNKNOWN_TABLE", "dropped"), FailureKind.STOP),
        (UnavailableError("CANNOT_READ_ALL_DATA", "trimmed"), FailureKind.STOP),
        (ValueError("a bug"), FailureKind.RETRY),
    ],
)
def test_the_kind_of_a_failure(error: Exception, kind: FailureKind) -> None:
    assert assess_failure(None, error, 5).kind is kind


@pytest.mark.parametrize("error", [UserError("ILLEGAL_COLUMN", "x"), CorruptionError("broken"), ValueError("bug")])
def test_the_fifth_failure_of_one_change_in_the_same_way_pauses(error: Exception) -> None:
    failure: LinkFailure | None = None
    for number in range(1, MAX_ATTEMPTS + 2):
        failure = assess_failure(failure, error, 7)
        assert failure.kind is (FailureKind.RETRY if number < MAX_ATTEMPTS else FailureKind.PAUSE)
    assert assess_failure(failure, error, 8).kind is FailureKind.RETRY


def test_what_heals_is_tried_for_ever_at_growing_intervals() -> None:
    failure: LinkFailure | None = None
    pauses = []
    for _ in range(30):
        failure = assess_failure(failure, UnavailableError("NETWORK_ERROR", "gone"), 7)
        assert failure.kind is FailureKind.RETRY
        pauses.append(failure.pause_seconds)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 10.0)


def test_the_lag_is_the_age_of_the_oldest_missing_change() -> None:
    lag = measure_lag([make_change(5), make_change(2000)], 3005, 10.0)
    assert lag.measure(10.5, is_connected=True) == pytest.approx(2.0 + 0.5)


def test_the_lag_is_0_while_nothing_is_missing_and_counts_while_disconnected() -> None:
    lag = measure_lag([], 3005, 10.0)
    assert lag.measure(12.0, is_connected=True) == 0.0
    assert lag.measure(12.0, is_connected=False) == pytest.approx(2.0)
