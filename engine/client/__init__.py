"""The client side: the HTTP client library, and the programs behind ``pando client`` and ``pando local``."""
