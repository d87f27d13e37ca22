"""What a name in a query means."""
