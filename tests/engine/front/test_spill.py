"""An answer that is put aside on disk is sent whole, or ends with an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.front.http.answer_spill import AnswerSpill, SpillSpace
from parts.common.errors import PandoError


def chunks(failure: Exception | None = None) -> Iterator[bytes]:
    yield b"a" * 1000
    if failure is not None:
        raise failure
    yield b"b" * 1000


def read(spill: AnswerSpill) -> tuple[bytes, int]:
    given = b""
    try:
        for chunk in spill.read_chunks():
            given += chunk
    except PandoError as error:
        return given, error.code
    return given, 0


def test_a_disk_that_takes_nothing_ends_the_answer(tmp_path: Path) -> None:
    space = SpillSpace(tmp_path, 10_000)
    spill = AnswerSpill(space)
    spill._file.close()
    with open(os.devnull, "rb") as spill._file:
        assert spill.fill(chunks())
        assert read(spill)[1]
    assert space.reserve(10_000)


@pytest.mark.parametrize("failure", [ValueError("a bug"), OSError(5, "a disk that is broken")])
def test_what_fails_is_told_after_what_came_before(tmp_path: Path, failure: Exception) -> None:
    spill = AnswerSpill(SpillSpace(tmp_path, 10_000))
    assert spill.fill(chunks(failure))
    given, code = read(spill)
    assert given == b"a" * 1000
    assert code
