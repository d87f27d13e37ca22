"""The functions of queries, one family a module. ``library`` fills the table of ``registry`` with all of them."""
