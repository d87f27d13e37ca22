"""Hashes of texts of every length, many and few at once, are those of ClickHouse."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sql.functions.hashes.row_words import rows_of_texts
from sql.functions.hashes.value_hashes import ALGORITHMS, HashAlgorithm

_LENGTHS = [*range(300), *range(300), 1000, 4095, 4096, 4097, 4098, 20_000]


@pytest.fixture(scope="module")
def texts() -> list[bytes]:
    chance = random.Random(5)
    made = [chance.randbytes(length) for length in _LENGTHS]
    chance.shuffle(made)
    return made


@pytest.fixture(scope="module")
def expected(texts: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    from chdb import session

    path: Path = tmp_path_factory.mktemp("hashes") / "texts.tsv"
    path.write_text("".join(f"{text.hex()}\n" for text in texts))
    calls = ", ".join(f"hex({algorithm.function}(unhex(x)))" for algorithm in ALGORITHMS)
    answer = session.Session().query(f"SELECT {calls} FROM file('{path}', TSV, 'x String')", "TabSeparated")
    columns = zip(*(line.split("\t") for line in str(answer).splitlines()), strict=True)
    return {algorithm.function: list(column) for algorithm, column in zip(ALGORITHMS, columns, strict=True)}


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.function)
def test_texts_of_every_length(algorithm: HashAlgorithm, texts: list[bytes], expected: dict[str, list[str]]) -> None:
    hashes = np.concatenate([algorithm.hash_some_rows(rows) for rows in rows_of_texts(pa.array(texts, pa.binary()))])
    if algorithm.bits == 128:
        found = [bytes(row).hex().upper() for row in hashes]
    else:
        found = [f"{value:X}".zfill(2) for value in hashes.tolist()]
        found = [digits.zfill(len(digits) + len(digits) % 2) for digits in found]
    assert found == expected[algorithm.function]
