"""Statements on a disk that fails once or twice in a row: what was shown before a restart is shown after it.

``python -m tests.failing_disk`` runs every statement against every operation; the test suite runs a part.
"""
