"""Links between clusters, as ZooKeeper and pure functions know them: who a cluster is."""
