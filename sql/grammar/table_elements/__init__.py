"""What CREATE TABLE and ALTER TABLE share: columns, indexes, constraints, TTL."""
