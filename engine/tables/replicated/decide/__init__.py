"""Decides and logs entries of a replicated table: merges, mutations, drops and moves."""
