"""The exchange of parts between replicas: a small HTTP protocol on its own port."""
