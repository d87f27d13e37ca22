"""ALTER TABLE with commands of several kinds: in the order of the text, and nothing where the definition is wrong."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.definitions.conftest import Both
from tests.engine.conftest import Local


def test_in_the_order_of_the_text(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE t (p UInt8, x Int8) ENGINE = MergeTree PARTITION BY p ORDER BY x;
        INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
        ALTER TABLE t DROP PARTITION 1, ADD COLUMN y Int8 DEFAULT 5;
        SELECT * FROM t ORDER BY p;
        ALTER TABLE t ADD COLUMN z Int8, DETACH PARTITION 2;
        SELECT * FROM t ORDER BY p;
        ALTER TABLE t ATTACH PARTITION 2, DROP COLUMN z, MODIFY COMMENT 'c';
        SELECT * FROM t ORDER BY p;
        ALTER TABLE t DROP COLUMN nope, DROP PARTITION 2;
        SELECT * FROM t ORDER BY p;
        ALTER TABLE t ADD COLUMN q Int8, UPDATE y = 1 WHERE p = 2 SETTINGS mutations_sync = 2;
        SELECT * FROM t ORDER BY p;
        ALTER TABLE t FREEZE PARTITION ALL
        """
    )


def test_a_wrong_definition_keeps_the_partition(local: Local) -> None:
    local.run("CREATE TABLE t (p UInt8) ENGINE = MergeTree PARTITION BY p ORDER BY p")
    local.run("INSERT INTO t VALUES (1)")
    for wrong in ("DROP COLUMN nope", "ADD COLUMN p Int8", "ADD COLUMN x Int8 DEFAULT nope"):
        with pytest.raises(PandoError):
            local.run(f"ALTER TABLE t DROP PARTITION 1, {wrong}")
        assert local.value("SELECT count() FROM t") == 1


def test_what_is_wrong_with_columns(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE t (k Int8, n Nested(a Int8, b Int8), c Int8) ENGINE = MergeTree ORDER BY k;
        ALTER TABLE t ADD COLUMN d Int8 AFTER n;
        ALTER TABLE t ADD COLUMN m Nested(q Int8, r Int8) AFTER n;
        ALTER TABLE t MODIFY COLUMN c Int8 AFTER m;
        ALTER TABLE t ADD COLUMN w DEFAULT 'x';
        DESCRIBE TABLE t;
        CREATE TABLE one (x Int8) ENGINE = MergeTree ORDER BY tuple();
        ALTER TABLE one CLEAR COLUMN x;
        ALTER TABLE one DROP COLUMN x
        """
    )
