"""Other servers, as a statement of this one asks them: which there are, and HTTP to them."""
