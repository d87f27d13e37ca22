"""Parts that no replica has any more: they are given up, and their rows can be inserted again."""

from __future__ import annotations

import shutil

from engine.tables.statement_options import OptimizeOptions
from tests.engine.tables.replicated.filled import MakeColony


def test_part_that_nobody_has_any_more_is_given_up(make_colony: MakeColony) -> None:
    """The queues drain, the rest stays, and the same rows can be inserted again."""
    colony = make_colony(2)
    one, two = colony
    for key in range(5):
        one.insert(1, [key])
    colony.settle()
    two.is_frozen = True
    one.insert(1, [100])
    one.crash()
    one.wipe()
    one.force_restore_all = True
    two.is_frozen = False
    colony.end_zombies()
    one.start()
    colony.settle(200)
    colony.check_equal()
    assert one.keys() == two.keys() == [0, 1, 2, 3, 4]
    assert two.insert(1, [100]) == 1
    colony.settle()
    two.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    colony.check_equal()
    assert one.keys() == [0, 1, 2, 3, 4, 100]


def test_merge_of_a_lost_part_is_given_up(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    two.is_frozen = True
    one.insert(1, [2])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    two.is_frozen = False
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert one.keys() == two.keys() == [1]


def test_rows_of_a_lost_merged_part_can_be_inserted_again(make_colony: MakeColony) -> None:
    """Block ids name the parts that were inserted, not the merged one that nobody has any more."""
    colony = make_colony(1)
    one = colony.nodes["r1"]
    for key in range(3):
        one.insert(1, [key])
    one.insert(2, [9])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True, partition_id="1")))
    one.crash()
    for path in one.directories():
        if path.name.startswith("1_"):
            shutil.rmtree(path)
    one.force_restore_all = True
    colony.end_zombies()
    one.start()
    colony.settle(300)
    assert one.keys() == [9]
    assert [one.insert(1, [key]) for key in range(3)] == [1, 1, 1]
    assert one.insert(2, [9]) == 0
    colony.settle()
    colony.check_equal()
    assert one.keys() == [0, 1, 2, 9]


def test_lost_merged_part_frees_only_the_rows_that_no_remnant_has(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [0])
    one.insert(1, [1])
    colony.settle()
    two.is_frozen = True
    one.insert(1, [2])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    one.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    two.is_frozen = False
    one.start()
    colony.settle(300)
    colony.check_equal()
    assert [two.insert(1, [key]) for key in range(3)] == [0, 0, 1]
    colony.settle()
    colony.check_equal()
    assert one.keys() == [0, 1, 2]
