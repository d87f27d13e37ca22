"""Bootstraps between servers: how a source answers, and how a target asks."""
