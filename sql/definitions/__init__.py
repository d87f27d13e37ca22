"""What a table is: from CREATE TABLE to its description and back, and the defaults of its columns."""
