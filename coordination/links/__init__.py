"""Decisions of links between clusters: positions, vectors, cuts of a change stream, and the plan of a batch. No I/O."""
