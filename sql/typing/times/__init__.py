"""Time zones, days, and ranges of dates."""
