"""The change stream of a table: its changes in order, the cuts in it, and how far it may be sent."""
