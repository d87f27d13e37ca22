"""Scans: reading a table's parts in pieces, by many processes at once, without SQL (the Spark connector's way in).

An execution of a scan is opened by its first read, which takes the snapshot that all of them read (``leases``); its
granules are dealt to slots (``slot_planning``), and each slot streams as Arrow (``arrow_stream``). The routes are in
``engine.front.http.scan_routes``.
"""
