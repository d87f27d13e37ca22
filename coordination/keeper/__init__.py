"""ZooKeeper as Pando uses it: the ``Keeper`` interface, its client over kazoo, and a twin in memory."""
