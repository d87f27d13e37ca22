"""Links between clusters, being built: cuts, plans of batches, identities and positions.

``cluster_identity`` claims a cluster's name in ZooKeeper when a server starts. ``table_position`` reads a table's
position. The other modules decide without I/O, and no server calls them yet.
"""
