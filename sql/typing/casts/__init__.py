"""Values of one type as another."""
