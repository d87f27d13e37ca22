"""What every package may import: errors, names, threads, memory. It knows nothing of a part's content."""
