"""Jobs that run again under their tokens, in every way there is: each row once, or an error."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from coordination.block_ids import read_claims
from coordination.cleanup import CleanupSettings, clean_once
from coordination.token_claim import TokenClaim, claim_alone, claim_rows, close_job
from parts.errors import ConflictError
from tests.coordination.members import TABLE, Member
from tests.coordination.real_time import drop_all_partitions, drop_partition

Blocks = tuple[str, ...]
"""What one task writes; a letter is a row."""
ROWS = "abc"


class Store:
    """A table with the claims of its tokens, and no deduplication window."""

    def __init__(self) -> None:
        self.claims: dict[str, str] = {}
        self.rows: list[str] = []

    def claim(self, claim: TokenClaim, rows: str = "") -> None:
        if claim.judge(self.claims):
            self.claims[claim.name] = claim.content
            self.rows += rows
        claim.require_whole_job(self.claims)

    def run(self, tasks: Sequence[Blocks], only: Sequence[tuple[int, int]] | None = None) -> bool:
        """Whether the job ended well. ``only``: the tasks that run before it is stopped, with the blocks of each."""
        try:
            for task, count in only if only is not None else [(task, len(tasks[task])) for task in range(len(tasks))]:
                for number, rows in enumerate(tasks[task][:count]):
                    content = f"{number + 1 == len(tasks[task])} {''.join(sorted(rows))}"
                    self.claim(claim_rows(f"job:{task}:{number}", "job", content), rows)
            if only is None:
                self.claim(close_job("job", sum(map(len, tasks))))
        except ConflictError:
            return False
        return only is None


def jobs() -> Iterator[tuple[Blocks, ...]]:
    """All rows in all their orders that matter, in blocks of one and two rows, over up to three tasks."""
    for order in ("abc", "cba"):
        for size in (1, 2):
            for cuts in itertools.combinations_with_replacement(range(4), 2):
                pieces = [order[a:b] for a, b in itertools.pairwise((0, *cuts, 3))]
                tasks = [tuple(piece[i : i + size] for i in range(0, len(piece), size)) for piece in pieces]
                yield tuple(tasks)
                if not tasks[2]:
                    yield tuple(tasks[:2])
                    if not tasks[1]:
                        yield (tasks[0],)


def stops(tasks: Sequence[Blocks]) -> Iterator[list[tuple[int, int]] | None]:
    """The first run goes to its end, or any tasks run, the last of them perhaps not to its end."""
    yield None
    for count in range(1, len(tasks) + 1):
        for chosen in itertools.combinations(range(len(tasks))[::-1], count):
            whole = [(task, len(tasks[task])) for task in chosen]
            yield whole
            if whole[-1][1] > 1:
                yield [*whole[:-1], (whole[-1][0], 1)]


def test_every_second_run_after_every_first_run() -> None:
    every = list(dict.fromkeys(jobs()))
    refused = repeated = 0
    for first in every:
        for only in stops(first):
            for second in every:
                store = Store()
                is_whole = store.run(first, only)
                before = list(store.rows)
                is_fine = store.run(second)
                assert not is_fine or sorted(store.rows) == list(ROWS), (first, only, second)
                assert is_fine or first != second, (first, only)
                assert not is_whole or store.rows == before, (first, second)
                refused += not is_fine
                repeated += is_fine
                if not is_fine and store.run(first):
                    assert sorted(store.rows) == list(ROWS), (first, only, second)
    assert refused > 1000
    assert repeated > 1000


def test_rows_that_no_job_had() -> None:
    store = Store()
    assert store.run([("a",), ()])
    assert not store.run([("a",), ("b",)])
    assert not store.run([("a", "b")])
    assert not store.run([()])
    assert store.rows == ["a"]


def test_tokens_of_different_jobs_do_not_meet() -> None:
    claims = dict.fromkeys((close_job("other", 1).name, claim_rows("job:0:0", "", "").name), "")
    assert claim_rows("job:0:0", "job", "x").judge(claims)
    close_job("job", 0).require_whole_job(claims)


def test_claims_outlive_drops_and_go_with_a_truncation(members: list[Member]) -> None:
    one, two, _ = members
    for member in (one, two):
        claim_alone(member.keeper, TABLE, claim_rows("job:0:0", "job", "rows"))
        claim_alone(member.keeper, TABLE, close_job("job", 1))
    one.insert("block")
    drop_partition(one.keeper, TABLE, one.name, "all")
    for refused in (claim_rows("job:0:0", "job", "others"), claim_rows("job:0:1", "job", "rows"), close_job("job", 2)):
        with pytest.raises(ConflictError, match="before"):
            claim_alone(two.keeper, TABLE, refused)
    drop_all_partitions(two.keeper, TABLE, two.name)
    assert read_claims(one.keeper, TABLE) == []
    claim_alone(one.keeper, TABLE, claim_rows("job:1:0", "job", "others"))
    with pytest.raises(ConflictError, match="The job has 0 tokens, and 1 of it were claimed"):
        claim_alone(two.keeper, TABLE, close_job("job", 0))


def test_the_window_keeps_as_many_claims_as_blocks(members: list[Member]) -> None:
    one = members[0]
    for number in range(5):
        one.insert(f"block{number}")
        claim_alone(one.keeper, TABLE, claim_rows(f"job:{number}", "job", ""))
    newest = claim_rows("job:4", "job", "")
    clean_once(one.keeper, TABLE, CleanupSettings(10, 100, 2, 1_000_000))
    assert len(one.keeper.children(TABLE.blocks)) == 4
    assert not newest.is_new(one.keeper, TABLE)
    assert claim_rows("job:2", "job", "").is_new(one.keeper, TABLE)
