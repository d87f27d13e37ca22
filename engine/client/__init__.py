"""The programs behind ``pando client`` and ``pando local``."""
