"""What clusters say to each other: the protocol, its client and its answers."""
