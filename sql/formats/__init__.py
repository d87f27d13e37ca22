"""Formats of data that goes in and out; ``registry`` lists them."""
