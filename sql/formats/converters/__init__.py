"""Between values and their texts, bytes and Arrow arrays."""
