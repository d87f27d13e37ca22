"""A cluster on one machine: a ZooKeeper and several servers, as processes or containers that outlive the command."""
