"""Opening, reading and verifying parts."""
