"""Mutations of stored parts: UPDATE, DELETE and their like."""
