"""Commands that remove rows from a table: DROP and MOVE PARTITION, DROP PART, FORGET PARTITION."""
