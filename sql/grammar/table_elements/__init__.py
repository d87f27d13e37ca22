"""Elements that CREATE TABLE and ALTER TABLE share: columns, indexes, constraints, TTL."""
