"""Transactional groups of links: their definitions, their cuts, and when a replica may show a cut."""
