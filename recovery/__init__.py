"""Comparing a replica's disk with ZooKeeper at startup, and restoring either from the other."""
