"""The cuts that a server shows of transactional groups of links: one view over all tables of a group."""
