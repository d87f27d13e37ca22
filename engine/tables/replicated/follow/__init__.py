"""The log as a replica follows it: pulled, fetched, merged, carried out."""
