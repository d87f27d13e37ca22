"""How formats read and write values of scalar types, one object a type."""
