"""The source of links at one replica: what it keeps of its changes, and what it gives."""
