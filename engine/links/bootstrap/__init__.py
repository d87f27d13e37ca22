"""Bootstraps of links, as servers speak of them: what the source answers, and how the target asks and copies."""
