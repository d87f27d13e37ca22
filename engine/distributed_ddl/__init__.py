"""Statements with ON CLUSTER: queued by the initiator, executed by a worker on each server.

The queue itself is in ``coordination.ddl.ddl_queue``.
"""
