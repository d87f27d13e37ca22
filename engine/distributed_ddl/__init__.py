"""Statements with ON CLUSTER: who puts them into the queue of ``coordination.ddl.ddl_queue``, and who carries them
out."""
