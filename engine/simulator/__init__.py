"""Whole servers in one thread: SQL in, ZooKeeper and the network in memory, time by hand, everything from one seed.

:mod:`simulated_cluster` holds the nodes, :mod:`simulated_servers` makes whole servers of them, :mod:`simulation` does
random work (``work/``) and random faults on them and checks every promise, :mod:`trace` writes down what happened,
:mod:`rule_coverage` counts it. ``pando simulate`` runs it.
Source of the idea: FoundationDB's and TigerBeetle's deterministic simulation.
"""
