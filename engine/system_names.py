"""The names of the databases that the server makes up."""

SYSTEM_NAMES = ("system", "information_schema", "INFORMATION_SCHEMA")
