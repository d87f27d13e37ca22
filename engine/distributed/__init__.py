"""Tables whose rows are in other tables: Distributed, Merge, ``remote()``, ``cluster()``, ``merge()``."""
