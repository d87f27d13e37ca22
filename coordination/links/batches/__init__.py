"""The batches of links: which changes one commit takes, and what it does."""
