"""What ALTER TABLE does to a definition."""
