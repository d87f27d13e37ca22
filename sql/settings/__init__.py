"""Settings of sessions and tables; ``session`` has what others use of a session's."""
