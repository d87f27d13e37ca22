"""GROUP BY: in the database, in two steps, or as early as in the scan."""
