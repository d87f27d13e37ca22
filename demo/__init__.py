"""``make demo``: what Pando does, on real data, in about two minutes."""
