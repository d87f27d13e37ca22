"""What happens when a replica's disk and ZooKeeper disagree."""
