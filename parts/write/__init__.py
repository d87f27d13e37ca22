"""Writing blocks of rows as parts."""
