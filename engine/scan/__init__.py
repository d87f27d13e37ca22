"""Scans: reading a table's parts in pieces, by many processes at once, without SQL (the Spark connector's way in).

A scan is planned once (``plan``), its parts are held by a lease (``leases``), and each piece streams as Arrow
(``stream``). The routes are in ``engine.http.scan_routes``.
"""
