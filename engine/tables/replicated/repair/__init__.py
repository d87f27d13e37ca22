"""Repairs broken, lost or unconfirmed parts, and restores replicas that ZooKeeper has lost."""
