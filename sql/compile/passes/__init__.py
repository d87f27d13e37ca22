"""Rewrites of the tree before names are resolved, one a module; ``pipeline`` runs them."""
