"""A replica's session, its definition, and the cleaning of its nodes."""
