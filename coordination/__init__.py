"""Everything that goes through ZooKeeper.

Each folder imports only those that stand before it in ARCHITECTURE.md.
"""
