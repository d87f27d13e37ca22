"""What need not be read: from conditions to parts, granules and rows. It is handed whatever must be computed."""
