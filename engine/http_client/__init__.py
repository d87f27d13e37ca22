"""HTTP to the servers, for the command line and for Spark: ``errors`` and ``retry`` import nothing but errors."""
