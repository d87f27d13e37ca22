"""``ReplicatedMergeTree``: a table whose replicas agree through ZooKeeper (see ARCHITECTURE.md)."""
