"""Parts that are broken, lost or not confirmed, and replicas that ZooKeeper has lost."""
