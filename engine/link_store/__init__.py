"""Files of linked tables on a replica: the journal of changes, and the outbox of blocks."""
