"""Tables of many columns: what is done for each column is not done for each chunk of the input."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Local
from tests.work import calls_of

_COLUMNS, _ROWS = 2000, 500


@pytest.mark.long
def test_rows_of_many_columns_are_parsed_in_long_chunks(local: Local) -> None:
    names = [f"c{number}" for number in range(_COLUMNS)]
    local.run(f"CREATE TABLE t ({', '.join(f'{name} UInt32' for name in names)}) ENGINE = MergeTree ORDER BY c0")
    rows = "\n".join("\t".join(str(10_000 + row + column) for column in range(_COLUMNS)) for row in range(_ROWS))
    data = rows.encode() + b"\n"
    made = calls_of(lambda: local.run("INSERT INTO t FORMAT TabSeparated", data))
    assert len(data) > 5 << 20
    assert made["sql.formats.streams.row_chunks.row_chunks"] <= 2  # one chunk, and the end
    assert local.run("SELECT count(), sum(c0), sum(c1999) FROM t") == [(500, 5_124_750, 6_124_250)]
