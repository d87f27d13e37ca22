"""Both ends of a bootstrap at one replica: one gives its parts, the other takes them."""
