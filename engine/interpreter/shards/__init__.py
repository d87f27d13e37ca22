"""Tables beyond this server: what Distributed tables, ``remote`` and ``cluster`` read and write."""
