"""Lets Spark's daemons import what their workers need, before they fork them.

Python imports it at each start if this folder is on PYTHONPATH. Spark has a daemon for each kind of work, which forks a
worker for almost every call; each would import pandas and the connector anew. pyspark comes from the installed package:
Spark puts an archive of it first, which has nothing compiled.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys

if "pyspark.daemon" in sys.orig_argv:
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    importlib.import_module(sys.orig_argv[-1])
    importlib.import_module("pandas")
    connector = importlib.import_module("spark_connector.python_source")
    for module in pkgutil.iter_modules(connector.__path__, f"{connector.__name__}."):
        importlib.import_module(module.name)
    gc.freeze()  # a worker collects garbage after each task
