"""Functions that ask of the session, the server and the block of rows."""
