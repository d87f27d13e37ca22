"""ZooKeeper's part in SELECTs with sequential consistency, in streams and in distributed scans."""
