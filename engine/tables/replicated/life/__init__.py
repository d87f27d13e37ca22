"""The life of a replica: its session, its definition, and the cleaning of its nodes."""
