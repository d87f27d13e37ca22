"""Tables whose rows are in other tables: Distributed, Merge, and their table functions.

The functions are ``remote()``, ``cluster()`` and ``merge()``.
"""
