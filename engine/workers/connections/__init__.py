"""Connections of clients: the replica process accepts them and passes them to workers."""
