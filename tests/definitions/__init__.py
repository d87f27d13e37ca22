"""Tables and their definitions: the small engines, CREATE in all its forms, what replaces what."""
