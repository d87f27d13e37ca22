"""From a block of rows to a part."""
