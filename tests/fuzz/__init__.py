"""Fuzzing: hostile input made from a seed, so that every finding can be repeated.

A *kind* is a module beside this one with

- ``opened()``: a context manager that yields a function of a seed. It runs the case of that seed and raises whatever
  the case shows to be wrong (an ``AssertionError`` with a text that helps), and returns why there was nothing to
  compare, or nothing;
- ``shown(seed)``: the input of that seed as text, for the report;
- ``SECONDS``: the longest that one case may take.

:mod:`tests.fuzz.runner` runs the cases of a kind in a process of its own, so that a crash or an endless case is a
finding with its seed too. ``python -m tests.fuzz statements 1000 0`` runs the seeds 0 to 999;
``make fuzz`` runs all kinds.
"""

from __future__ import annotations

KINDS = ("statements", "bodies", "requests", "differences", "replicated", "insert_formats", "definitions")
"""The modules of this package that are kinds."""
