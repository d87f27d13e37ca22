"""Executes parsed statements: one module per family of statements."""

from engine.interpreter.dispatch import execute_statement

__all__ = ["execute_statement"]
