"""The replication log and the replicas' queues: log entries, and which queued entry may run. No I/O."""
