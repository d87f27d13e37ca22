"""Committing a fetched part with what its source was seen to list: one request, and never another content."""

from __future__ import annotations

import pytest

from coordination.inserts.quorum import QuorumPlan
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.log.queue_rules import Action, PoolLimits
from coordination.nodes.part_record import PartRecord
from coordination.replicas.part_commit import ContentAgreement, PartCommitStatus
from parts.common.part_name import PartName
from tests.coordination.members import RECORD, TABLE, Member, fault_once
from tests.coordination.real_time import commit_produced_part


def _fetching(members: list[Member], quorum: QuorumPlan | None = None) -> tuple[Action, PartName, ContentAgreement]:
    """r2 is about to commit a part that it fetched from r1."""
    part = members[0].insert("a", quorum)
    members[1].pull()
    action = members[1].queue.take_next_action(members[1], PoolLimits(9, 9, 1 << 40))
    assert action is not None
    listed = members[0].paths.part(str(part))
    return action, part, ContentAgreement.read(listed, members[1].keeper.get(listed))


def _commit(
    member: Member, action: Action, part: PartName, agreement: ContentAgreement, record: PartRecord = RECORD
) -> PartCommitStatus:
    return commit_produced_part(
        member.keeper,
        member.paths,
        member.queue,
        action.name,
        action.entry,
        part,
        record,
        agreement=agreement,
        resolve_seconds=0,
        sleep=lambda _: None,
    )


def _is_committed(member: Member, action: Action, part: PartName) -> bool:
    listed, queued = member.keeper.exists_many([member.paths.part(str(part)), member.paths.queue_entry(action.name)])
    return listed is not None and queued is None


def test_with_an_agreement_a_commit_is_one_request(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    action, part, agreement = _fetching(members)
    before = ensemble.requests
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.COMMITTED
    assert ensemble.requests == before + 1
    assert _is_committed(members[1], action, part)


def test_other_content_than_agreed_is_never_committed(members: list[Member]) -> None:
    action, part, agreement = _fetching(members)
    other = PartRecord("other", 1, 10)
    assert _commit(members[1], action, part, agreement, other) is PartCommitStatus.DIFFERENT
    assert not _is_committed(members[1], action, part)


def test_a_changed_listing_is_looked_at_again(members: list[Member]) -> None:
    action, part, agreement = _fetching(members)
    members[0].keeper.set(members[0].paths.part(str(part)), PartRecord("other", 1, 10).to_bytes())
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.DIFFERENT


def test_a_source_that_has_given_the_part_up_meanwhile_is_no_obstacle(members: list[Member]) -> None:
    action, part, agreement = _fetching(members)
    members[0].keeper.delete(members[0].paths.part(str(part)))
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.COMMITTED
    assert _is_committed(members[1], action, part)


def test_an_entry_that_is_gone_is_not_committed(members: list[Member]) -> None:
    action, part, agreement = _fetching(members)
    members[1].keeper.delete(members[1].paths.queue_entry(action.name))
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.DROPPED
    assert members[1].keeper.exists(members[1].paths.part(str(part))) is None


def test_a_quorum_part_takes_the_long_way_and_is_confirmed(members: list[Member]) -> None:
    action, part, agreement = _fetching(members, QuorumPlan(2, is_parallel=False))
    assert members[0].keeper.exists(TABLE.quorum_status) is not None
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.COMMITTED
    assert members[0].keeper.exists(TABLE.quorum_status) is None


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_a_lost_answer_is_settled_by_asking(ensemble: MemoryEnsemble, members: list[Member], fault: Fault) -> None:
    action, part, agreement = _fetching(members)
    fault_once(ensemble, fault)
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.UNKNOWN
    members[1].keeper.reconnect()
    assert _commit(members[1], action, part, agreement) is PartCommitStatus.COMMITTED
    assert _is_committed(members[1], action, part)
