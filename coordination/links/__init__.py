"""Links between clusters: decisions without I/O, such as cuts and plans of batches; and identities in ZooKeeper."""
