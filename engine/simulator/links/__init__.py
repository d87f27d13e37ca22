"""Simulates several clusters that replicate to each other.

:mod:`linked_world` holds the clusters and :mod:`cluster_network` what lies between them. :mod:`commit_history` records
what each cluster's ZooKeeper accepted, and :mod:`link_model` derives from it what every other cluster may show.
:mod:`linked_work` runs clients and faults, in the topologies of :mod:`linked_scenarios`.
"""
