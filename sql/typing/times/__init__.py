"""Time zones, calendar days, and ranges of dates and times."""
