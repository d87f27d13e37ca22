"""Files of linked tables on a replica: the journal of changes, and the outbox of blocks.

Links are being built, and nothing calls these modules yet.
"""
