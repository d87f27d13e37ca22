"""What it takes to add a thing: patches that add a toy of each kind, and what the patched tree then answers."""
