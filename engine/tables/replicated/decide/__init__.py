"""The entries that a replica writes into the log: merges, mutations, drops and moves."""
