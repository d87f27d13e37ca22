"""The parts of one table on one disk, and their states."""
