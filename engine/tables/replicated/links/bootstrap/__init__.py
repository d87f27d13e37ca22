"""Both ends of a bootstrap at one replica: a table that gives its parts away, and one that takes them."""
