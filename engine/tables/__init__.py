"""The interface of a table, and what every kind of table shares."""
