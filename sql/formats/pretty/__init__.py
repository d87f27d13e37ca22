"""Formats for people."""
