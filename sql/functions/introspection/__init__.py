"""Functions about the session, the server and the block of rows."""
