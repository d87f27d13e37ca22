"""Options of a Spark session for all uses of the format ``pando``: ``configure(spark)``.

Spark passes its configuration to no Python data source. So the options are read here, in the driver, and go with the
class that is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parts.common.errors import UserError
from spark_connector.python_source.data_source import PandoDataSource
from spark_connector.shared.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.pando."


def configure(spark: SparkSession) -> dict[str, str]:
    """Reads ``spark.pando.<option>`` of the session's configuration as defaults for every use.

    Returns the options. Raises ``UserError`` 36 for a wrong one. A password must be named by reference
    (``spark.pando.password_env``, ``spark.pando.password_file``), since everybody who uses a session can read its
    configuration.
    """
    options = read_session_options(spark)
    if "password" in options:
        raise UserError(
            "BAD_ARGUMENTS",
            "Format pando: the configuration must not have 'spark.pando.password', which everybody can read there: "
            "name a file of the driver in 'spark.pando.password_file', or a variable of its environment in "
            "'spark.pando.password_env'",
        )
    parse_options({"url": "http://127.0.0.1", "table": "any", **options})
    source = type("ConfiguredDataSource", (PandoDataSource,), {"defaults": options})
    spark.dataSource.register(source)
    return options


def read_session_options(spark: SparkSession) -> dict[str, str]:
    """Returns the options that the session's configuration has now."""
    context = getattr(spark, "sparkContext", None)  # a client of Spark Connect has none
    known = {**(dict(context.getConf().getAll()) if context is not None else {}), **spark.conf.getAll}
    return {name.removeprefix(_PREFIX): value for name, value in known.items() if name.startswith(_PREFIX) and value}


def use_session(spark: SparkSession) -> None:
    """Makes ``spark`` the session of the calling thread, which then can write.

    Spark looks for Python formats in the session of its own thread, and a thread that Python starts has none: there
    ``frame.write.format("pando")`` raises DATA_SOURCE_NOT_FOUND. Does nothing for a client of Spark Connect, which
    needs nothing.
    """
    java_session = getattr(spark, "_jsparkSession", None)
    if java_session is not None:
        spark._jvm.SparkSession.setActiveSession(java_session)
