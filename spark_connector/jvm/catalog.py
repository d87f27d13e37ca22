"""Makes the databases of a cluster a catalog of a Spark session: ``use_catalog(spark, url)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parts.common.errors import UserError
from spark_connector.jvm.jar import use_jvm_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "pando.spark.PandoCatalog"


def use_catalog(spark: SparkSession, url: str, name: str = "pando", **options: str) -> None:
    """Adds the catalog ``name`` to a session that runs: ``SELECT * FROM pando.default.hits``.

    ``url`` and ``options`` are those of a read by the format ``pando_jvm``, without what names a table. They stand in
    the session's configuration (``spark.sql.catalog.<name>.…``), so a password is named by ``password_env`` or
    ``password_file``. Spark makes a catalog when it is first used, and keeps its options then.

    Raises ``UserError`` 36 for a password or a name that is no word, and as ``use_jvm_source`` does.
    """
    if "password" in options:
        raise UserError(
            "BAD_ARGUMENTS",
            "The configuration of a catalog must not have a password, which everybody can read there: name a variable "
            "of the driver's environment in 'password_env', or a file there in 'password_file'",
        )
    if not name.isidentifier():
        raise UserError("BAD_ARGUMENTS", f"The name of a catalog must be a word, got {name!r}")
    use_jvm_source(spark)
    for option, value in {"url": url, **options}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{option}", value)
    spark.conf.set(f"spark.sql.catalog.{name}", _CLASS)
