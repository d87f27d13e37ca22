"""A cluster on one machine: a ZooKeeper and several servers, as processes that outlive the command."""
