"""The replication log and the queues: what an entry says, and which entry of a queue may run. Pure."""
