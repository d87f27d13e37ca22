"""The two ends of links at one replica."""
