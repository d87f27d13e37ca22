"""What INSERTs and links bring to a table goes through its materialized views."""
