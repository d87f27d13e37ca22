"""Transactional groups at one replica: how cuts are committed, and shown at one moment."""
