"""The znodes of a table: their paths, and what a replica says of itself in them."""
