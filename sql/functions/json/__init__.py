"""Functions over JSON texts."""
