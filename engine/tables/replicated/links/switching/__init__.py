"""Switching over at one replica: the tail of its changes, and places for followers."""
