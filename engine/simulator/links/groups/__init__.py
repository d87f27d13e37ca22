"""Simulates transactional groups of links, and checks every read against the history of the source.

:mod:`cut_history` is the checker, a pure function of commits and reads. :mod:`source_recorder` records what a source's
ZooKeeper accepts. :mod:`grouped_work` runs clients, faults and readers, in the scenarios of :mod:`grouped_scenarios`.
"""
