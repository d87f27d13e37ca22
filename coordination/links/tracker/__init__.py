"""The tracker: which links of a source are synchronous, by the health of their targets."""
