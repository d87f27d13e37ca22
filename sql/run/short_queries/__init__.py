"""Point queries that are answered from kept plans, without compiling."""
