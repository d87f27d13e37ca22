"""Between values and their texts, in SQL."""
