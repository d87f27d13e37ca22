"""Tables of the engines that reduce rows, here and in ClickHouse: equal rows after every step, and equal FINAL."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.engines.histories import History
from tests.portions import one_in
from tests.sql.oracle import Oracle

pytestmark = pytest.mark.long

HISTORIES = 72
STEPS = 8


@pytest.mark.parametrize("block", one_in(6, range(6)))
def test_histories(oracle: Oracle, pando: Pando, block: int) -> None:
    for seed in range(block, HISTORIES, 6):
        follow(oracle, pando, History(seed, f"e{seed}"))


def follow(oracle: Oracle, pando: Pando, history: History) -> None:
    told = [f"seed {history.seed}"]
    for statement in history.statements(STEPS):
        told.append(statement)
        oracle.query(statement)
        pando.query(statement)
        for question in history.questions():
            expected, found = oracle.query(question), pando.query(question)
            assert found == expected, ";\n".join([*told, question])
    for one in (oracle, pando):
        one.query(f"DROP TABLE {history.table}")
