"""Inserted blocks: their numbers and ids, the commit of an INSERT, and quorums."""
