"""The names of the databases that the server makes up, and of one that it hides."""

SYSTEM_NAMES = ("system", "information_schema", "INFORMATION_SCHEMA")
TEMPORARY = "_temporary_and_external_tables"
"""Where the temporary tables of all sessions are."""
