"""Statements that switch over."""
