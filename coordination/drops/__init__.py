"""Commands that take rows away from a table, one a module: DROP and MOVE PARTITION, DROP PART, FORGET PARTITION."""
