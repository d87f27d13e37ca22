"""Scans: many processes read a table's parts at once, piece by piece, without SQL.

This is how the Spark connector reads. The first read of an execution opens it and takes the snapshot that all its reads
share (``leases``). Its granules are divided into slots (``slot_planning``), and each slot is sent as an Arrow stream
(``arrow_stream``). The routes are in ``engine.front.http.scan_routes``.
"""
