"""The formats of data that goes in and out; ``registry`` has their table."""
