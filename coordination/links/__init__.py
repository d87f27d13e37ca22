"""Links between clusters: their names and settings, how they begin, what their two ends decide.

``stream`` and ``batches`` decide what is sent and what is committed. The modules here are settings, names and nodes of
links, identities, positions and vectors, places of bootstraps, failures and lag. Those that name a keeper read and
write nodes; the others decide without I/O.
"""
