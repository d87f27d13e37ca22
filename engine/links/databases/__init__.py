"""Links of whole databases."""
