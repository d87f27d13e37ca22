"""The clients: ``pando client`` and ``pando local``, and bulk export and load."""
