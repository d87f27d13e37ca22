"""The random work of the simulator, one kind per module."""
