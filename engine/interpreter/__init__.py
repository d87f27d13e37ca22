"""Runs parsed statements against the engine: one module a family of statements."""

from engine.interpreter.dispatch import execute_statement

__all__ = ["execute_statement"]
