"""MergeTree tables of one server."""
