"""Transactional groups of links between servers: made by statements, asked for at the source, applied at the target."""
