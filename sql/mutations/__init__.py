"""UPDATE, DELETE and their like on stored parts."""
