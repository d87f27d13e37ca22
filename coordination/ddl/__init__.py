"""The queue of statements with ON CLUSTER."""
