"""A table's nodes were deleted in ZooKeeper while its servers run: nobody makes a part of them anew."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.keeper.interface import Keeper
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.reads.dropped_blocks import record_drop_ops, record_lost_part_ops
from coordination.reads.scan_records import KeeperScanRecords
from coordination.replicas.table_nodes import CreateOutcome
from coordination.transactions.application_versions import read_application_version
from coordination.transactions.transaction_nodes import abort_transaction, open_transaction, transaction_node_name
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from tests.coordination.members import DEFINITION, TABLE
from tests.coordination.real_time import create_table_or_replica

_PART = PartName("all", 1, 1, 0)
_WRITERS: dict[str, Callable[[Keeper], object]] = {
    "scans": lambda keeper: KeeperScanRecords(keeper, TABLE).record("scan", b"parts"),
    "transactions": lambda keeper: open_transaction(keeper, TABLE, "x"),
    "an aborted transaction": lambda keeper: abort_transaction(
        keeper, TABLE, transaction_node_name("x"), "late", transaction_id="x"
    ),
    "applications": lambda keeper: read_application_version(keeper, TABLE, "stream"),
    "dropped_blocks": lambda keeper: keeper.multi(record_drop_ops(keeper, TABLE, {"all": 7})),
    "lost_blocks": lambda keeper: keeper.multi(record_lost_part_ops(keeper, TABLE, _PART)),
}
_LISTS = ["scans", "transactions", "open_transactions", "applications", "dropped_blocks", "lost_blocks"]
writers = pytest.mark.parametrize("writer", _WRITERS)


@pytest.fixture
def keeper(ensemble: MemoryEnsemble) -> Keeper:
    keeper = ensemble.connect()
    create_table_or_replica(keeper, TABLE, "r1", DEFINITION)
    return keeper


@writers
def test_a_list_is_made_with_its_first_node(keeper: Keeper, writer: str) -> None:
    for _ in range(2):
        _WRITERS[writer](keeper)


@writers
def test_nothing_is_made_below_a_root_that_is_gone(ensemble: MemoryEnsemble, keeper: Keeper, writer: str) -> None:
    keeper.delete_tree(TABLE.root)
    with pytest.raises(UserError, match=f"metadata is missing in ZooKeeper: {TABLE.root}") as refused:
        _WRITERS[writer](keeper)
    assert refused.value.code == 225
    assert TABLE.root not in ensemble.tree


@writers
def test_nothing_is_made_where_a_drop_has_begun(ensemble: MemoryEnsemble, keeper: Keeper, writer: str) -> None:
    keeper.delete_tree(TABLE.replicas)
    before = set(ensemble.tree)
    with pytest.raises(UserError):
        _WRITERS[writer](keeper)
    assert set(ensemble.tree) == before


@writers
@pytest.mark.parametrize("number", range(1, 8))
def test_the_root_goes_at_any_request(ensemble: MemoryEnsemble, keeper: Keeper, writer: str, number: int) -> None:
    left = [number]
    other = ensemble.connect()

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= session == keeper.session_id
        if left[0] == 0:
            ensemble.faults = None
            other.delete_tree(TABLE.root)
        return None

    ensemble.faults = faults
    with contextlib.suppress(PandoError):
        _WRITERS[writer](keeper)
    assert TABLE.root not in ensemble.tree or ensemble.faults is not None


@writers
@pytest.mark.parametrize("number", range(1, 5))
def test_a_lost_answer_is_asked_for_again(ensemble: MemoryEnsemble, keeper: Keeper, writer: str, number: int) -> None:
    left = [number]

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= kind in ("multi", "create")
        return Fault.LOSE_ANSWER if left[0] == 0 and kind in ("multi", "create") else None

    ensemble.faults = faults
    for _ in range(3):
        with contextlib.suppress(PandoError):
            _WRITERS[writer](keeper)
        keeper.reconnect()  # type: ignore[attr-defined]
    ensemble.faults = None
    _WRITERS[writer](keeper)


def test_empty_lists_that_an_older_version_made_anew_do_not_hinder_a_create(ensemble: MemoryEnsemble) -> None:
    keeper = ensemble.connect()
    for name in _LISTS:
        keeper.create_parents(f"{TABLE.root}/{name}")
    assert create_table_or_replica(keeper, TABLE, "r1", DEFINITION) is CreateOutcome.FIRST_REPLICA
    assert "scans" not in keeper.children(TABLE.root)


@pytest.mark.parametrize("path", ["applications/some", "transactions/some", "scans/some", "another"])
def test_what_may_be_of_value_is_named(ensemble: MemoryEnsemble, path: str) -> None:
    """A path may as well be another program's."""
    keeper = ensemble.connect()
    keeper.create_parents(f"{TABLE.root}/lost_blocks")
    keeper.create_parents(f"{TABLE.root}/{path}")
    before = set(ensemble.tree)
    with pytest.raises(UserError, match=f"{TABLE.root}.*{path.partition('/')[0]}") as refused:
        create_table_or_replica(keeper, TABLE, "r1", DEFINITION)
    assert refused.value.code == 57
    assert set(ensemble.tree) == before
