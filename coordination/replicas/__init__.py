"""The life of a replica: it is created, follows the log, is cloned, is marked as lost, and is dropped."""
