"""Everything that goes through ZooKeeper. Which folder may import which stands in pyproject.toml."""
