"""Whole servers in one thread: SQL in, ZooKeeper and the network in memory, time by hand, everything from one seed.

:mod:`colony` holds the nodes, :mod:`servers` makes whole servers of them, :mod:`simulation` does random work and random
faults on them and checks every promise, :mod:`statements` adds what only servers can be asked, :mod:`trace` writes down
what happened, :mod:`rules` counts it. ``pando simulate`` runs it.
Source of the idea: FoundationDB's and TigerBeetle's deterministic simulation.
"""
