"""Transactional groups at one replica: how a cut is committed, and how its tables show it at one moment."""
