"""Tables without keys: Memory, Log and its kin, Null, views."""
