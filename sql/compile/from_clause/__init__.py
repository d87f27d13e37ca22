"""FROM: tables, joins, table functions, and what is asked of them."""
