"""Makes sessions of Spark ready: ``session(url)`` a new one, ``configure(spark)`` one that runs.

A session gets the jar, by which rows do not go through Python workers; the options that all uses share; and the
databases of the servers as the catalog ``pando``. Spark passes its configuration to no Python data source. So the
options are read here, in the driver, and go with the class that is registered.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

from parts.common.errors import UserError
from spark_connector.jvm.catalog import use_catalog
from spark_connector.jvm.jar import add_jar
from spark_connector.python_source.data_source import PandoDataSource
from spark_connector.shared.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.pando."
_CATALOG = "pando"
_ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
_NOT_OF_CATALOGS = ("table", "database", "columns", "filter", "query", "task_query", "scan_name")
"""Options that name a table or a part of one."""


def session(url: str = "", *, master: str = "", **options: str) -> SparkSession:
    """Returns a Spark session that is ready, as :func:`configure` makes it; there may be one already.

    ``url`` and ``options`` are those that all uses of the format ``pando`` in it share, and of the catalog ``pando``.
    ``master`` is Spark's. Joins by a partition key and other columns need no shuffle, unless its configuration has
    ``spark.sql.requireAllClusterKeysForCoPartition``. Raises ``UserError`` 36 for wrong options.
    """
    from pyspark.sql import SparkSession

    given = {name: value for name, value in {"url": url, **options}.items() if value}
    _check(given)
    builder = SparkSession.builder.master(master) if master else SparkSession.builder
    spark = builder.getOrCreate()
    for name, value in given.items():
        spark.conf.set(f"{_PREFIX}{name}", value)
    if _ALL_KEYS not in spark.conf.getAll:
        spark.conf.set(_ALL_KEYS, "false")
    configure(spark)
    return spark


def configure(spark: SparkSession, *, use_jvm: bool = True) -> dict[str, str]:
    """Makes a session ready that runs; returns the options that all uses of the format share.

    These are ``spark.pando.<option>`` of its configuration. If ``url`` is among them, the databases of the servers
    become the catalog ``pando``, unless the options name a table or a part of one. ``use_jvm=False`` adds no jar and no
    catalog, as for a client of Spark Connect: rows go through Python workers. So they do where the jar cannot be made,
    and the log says why.

    Raises ``UserError`` 36 for a wrong option. A password must be named by reference (``spark.pando.password_env``,
    ``spark.pando.password_file``), since everybody who uses a session can read its configuration.
    """
    options = _read_options(spark)
    _check(options)
    _register(spark, options)
    if use_jvm and getattr(spark, "_jsparkSession", None) is not None:
        _use_jvm(spark, options)
    return options


def _register(spark: SparkSession, options: dict[str, str]) -> None:
    from pyspark.errors import AnalysisException

    # As with the jar, all frames of a query read one state of a table.
    defaults = {"scan_name": uuid.uuid4().hex, **options}
    try:
        spark.dataSource.register(type("ConfiguredDataSource", (PandoDataSource,), {"defaults": defaults}))
    except AnalysisException as error:  # Spark 4.0 keeps the source that it found by itself
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        if options:
            print("pando: this Spark has no options of a session for Python workers", file=sys.stderr)


def _read_options(spark: SparkSession) -> dict[str, str]:
    context = getattr(spark, "sparkContext", None)  # a client of Spark Connect has none
    known = {**(dict(context.getConf().getAll()) if context is not None else {}), **spark.conf.getAll}
    return {name.removeprefix(_PREFIX): value for name, value in known.items() if name.startswith(_PREFIX) and value}


def _check(options: dict[str, str]) -> None:
    if "password" in options:
        raise UserError(
            "BAD_ARGUMENTS",
            "Format pando: the configuration must not have 'spark.pando.password', which everybody can read there: "
            "name a file of the driver in 'spark.pando.password_file', or a variable of its environment in "
            "'spark.pando.password_env'",
        )
    parse_options({"url": "http://127.0.0.1", "table": "any", **options})


def _use_jvm(spark: SparkSession, options: dict[str, str]) -> None:
    is_catalog_free = spark.conf.get(f"spark.sql.catalog.{_CATALOG}", "") == ""
    try:
        if "url" in options and is_catalog_free and not any(name in options for name in _NOT_OF_CATALOGS):
            use_catalog(spark, options["url"], _CATALOG)
        else:
            add_jar(spark)
    except UserError as error:
        print(f"pando: rows go through Python workers, because there is no jar: {error.message}", file=sys.stderr)


def use_session(spark: SparkSession) -> None:
    """Makes ``spark`` the session of the calling thread, which then can write.

    Spark looks for formats in the session of its own thread, and for classes of a jar that was added in its thread's
    class loader. A thread that Python starts has neither: there ``frame.write.format("pando")`` raises
    DATA_SOURCE_NOT_FOUND. Does nothing for a client of Spark Connect, which needs nothing.
    """
    java_session = getattr(spark, "_jsparkSession", None)
    if java_session is not None:
        spark._jvm.SparkSession.setActiveSession(java_session)
        loader = java_session.artifactManager().classloader()
        spark._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
