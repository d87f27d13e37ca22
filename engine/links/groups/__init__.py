"""Transactional groups of links between servers: statements, and both ends of a cut."""
