"""``pando export`` and ``pando load``: whole tables to and from folders of Parquet that all servers see."""
