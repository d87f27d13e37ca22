"""Simulates whole servers in one thread, with ZooKeeper, network and time in memory, from one seed.

:mod:`simulated_cluster` holds the nodes, and :mod:`simulated_servers` makes whole servers of them. :mod:`simulation`
runs random work and random faults on them and checks every promise. :mod:`work.random_statements` adds statements that
only servers can execute. :mod:`trace` writes down what happened, and :mod:`rule_coverage` counts it. ``pando simulate``
runs it.

Source of the idea: FoundationDB's and TigerBeetle's deterministic simulation.
"""
