"""The functions of queries, one family a module.

``sql.compile.expressions.function_library`` fills the table of ``registry`` with all of them.
"""
