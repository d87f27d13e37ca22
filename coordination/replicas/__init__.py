"""The life of a replica: it is created, follows the log, is cloned, is given up, and is dropped."""
