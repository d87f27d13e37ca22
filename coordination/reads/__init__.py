"""What SELECTs, streams and scans ask of ZooKeeper."""
