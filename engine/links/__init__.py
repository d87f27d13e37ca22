"""Links between clusters, as one server runs them."""
