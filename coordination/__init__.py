"""Everything that goes through ZooKeeper.

The contracts in pyproject.toml list which folder may import which.
"""
