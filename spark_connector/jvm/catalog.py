"""Makes the databases of a cluster a catalog of a Spark session: ``use_catalog(spark, url)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parts.common.errors import UserError
from spark_connector.jvm.jar import add_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "pando.spark.PandoCatalog"


def use_catalog(spark: SparkSession, url: str, name: str = "pando", **options: str) -> None:
    """Adds the catalog ``name`` to a session that runs: ``SELECT * FROM pando.default.hits``.

    ``url`` and ``options`` are those of a read, without what names a table. They stand in the session's configuration
    (``spark.sql.catalog.<name>.…``), so a password is named by ``password_env`` or ``password_file``. The session keeps
    a catalog and its options until it ends.

    Raises ``UserError`` 36 for a password, a name that is no word, and one that the session has with other options;
    Spark's ``IllegalArgumentException`` for other wrong options; and what ``make_jar`` raises.
    """
    if "password" in options:
        raise UserError(
            "BAD_ARGUMENTS",
            "The configuration of a catalog must not have a password, which everybody can read there: name a variable "
            "of the driver's environment in 'password_env', or a file there in 'password_file'",
        )
    if not name.isidentifier():
        raise UserError("BAD_ARGUMENTS", f"The name of a catalog must be a word, got {name!r}")
    own = f"spark.sql.catalog.{name}"
    wanted = {own: _CLASS, f"{own}.url": url, **{f"{own}.{option}": value for option, value in options.items()}}
    known = {key: value for key, value in spark.conf.getAll.items() if key == own or key.startswith(f"{own}.")}
    if known and known != wanted:
        raise UserError("BAD_ARGUMENTS", f"The session has a catalog {name!r} with other options: take another name")
    add_jar(spark)
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        _load(spark, name)
    except Exception:
        for key in wanted:
            spark.conf.unset(key)
        raise


def _load(spark: SparkSession, name: str) -> None:
    """Makes the catalog in this thread: in others Spark does not find the classes of a jar that was added.

    Spark reads a catalog's options in the session of the thread, which may be another.
    """
    java_session = getattr(spark, "_jsparkSession", None)  # a client of Spark Connect has none
    if java_session is not None:
        sessions = spark._jvm.SparkSession
        before = sessions.getActiveSession()
        sessions.setActiveSession(java_session)
        try:
            java_session.sessionState().catalogManager().catalog(name)
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
