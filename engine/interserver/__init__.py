"""How replicas give each other parts: a small HTTP protocol of its own, on its own port."""
