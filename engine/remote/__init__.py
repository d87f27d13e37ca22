"""Other servers: which ones there are, and HTTP requests to them."""
