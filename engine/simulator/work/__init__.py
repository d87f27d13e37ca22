"""The random work of the simulator, one kind a module."""
