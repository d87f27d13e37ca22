"""A cluster on one machine: processes or containers of servers and a ZooKeeper, which go on."""
