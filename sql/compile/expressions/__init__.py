"""From an expression of the tree to a typed expression."""
