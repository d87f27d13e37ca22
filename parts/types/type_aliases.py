"""Aliases of data types in lower case, also of other databases. They are case-insensitive."""

from __future__ import annotations

ALIASES = {
    "tinyint": "Int8", "smallint": "Int16", "int": "Int32", "integer": "Int32", "bigint": "Int64",
    "float": "Float32", "real": "Float32", "double": "Float64", "boolean": "Bool", "bool": "Bool",
    "text": "String", "varchar": "String", "char": "String", "blob": "String", "timestamp": "DateTime",
    "date": "Date", "datetime": "DateTime", "decimal": "Decimal", "dec": "Decimal", "numeric": "Decimal",
    "date32": "Date32", "datetime32": "DateTime32", "datetime64": "DateTime64", "decimal32": "Decimal32",
    "decimal64": "Decimal64", "decimal128": "Decimal128", "enum": "Enum", "fixed": "Decimal", "binary": "FixedString",
    "bit": "UInt64", "byte": "Int8", "bytea": "String", "character": "String", "clob": "String", "inet4": "IPv4",
    "inet6": "IPv6", "int1": "Int8", "longblob": "String", "longtext": "String", "mediumblob": "String",
    "mediumint": "Int32", "mediumtext": "String", "nchar": "String", "nvarchar": "String", "set": "UInt64",
    "signed": "Int64", "single": "Float32", "tinyblob": "String", "tinytext": "String", "unsigned": "UInt64",
    "varbinary": "String", "varchar2": "String", "year": "UInt16",
}  # fmt: skip
SIGNED = frozenset({"tinyint", "smallint", "int", "integer", "bigint", "int1", "mediumint"})
"""Aliases that UNSIGNED may follow."""
