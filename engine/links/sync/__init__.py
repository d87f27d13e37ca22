"""Synchronous links at the source: modes, states, and INSERTs that are made together with targets."""
