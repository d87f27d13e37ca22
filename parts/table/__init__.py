"""A table's definition, as parts need it: columns, keys, TTL rules, settings."""
