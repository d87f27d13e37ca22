"""Patches rot: each must apply to the tree as it is, and name tests that there are. ``make mutants`` runs them."""

from __future__ import annotations

import pytest

from tests.mutants.mutants import ROOT, Mutant, all_mutants


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_a_patch_applies_and_names_who_catches_it(mutant: Mutant) -> None:
    assert mutant.apply(ROOT, "--check") == ""
    assert len(mutant.head.strip().splitlines()) > 1, "say what is wrong"
    assert mutant.catchers
    for arguments in mutant.catchers:
        for argument in arguments:
            file, _, test = argument.partition("::")
            if file.startswith("tests/"):
                text = (ROOT / file).read_text()
                assert not test or f"def {test.partition('[')[0]}(" in text


def test_there_are_enough() -> None:
    assert len(all_mutants()) >= 10
