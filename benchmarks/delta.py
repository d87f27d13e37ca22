"""Delta tables as the package ``deltalake`` reads and writes them for Spark, where it is installed.

Spark has no Delta of its own, and Delta's own for Spark is no Python package. So the table's log is read here, for the
files that Spark then reads as its own Parquet; and Spark hands over what is written, as Arrow, to be written at once.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PEER = "Delta (deltalake)"
_PACKAGE = "deltalake"


def is_there() -> bool:
    """Says so where it is not."""
    found = importlib.util.find_spec(_PACKAGE) is not None
    if not found:
        print(f"the package {_PACKAGE} is not installed: nothing is compared with Delta", file=sys.stderr)
    return found


class Delta:
    """A table of the files of ``source``, which are copied."""

    def __init__(self, spark: SparkSession, source: str, path: str) -> None:
        from deltalake import convert_to_deltalake

        shutil.copytree(source, path)
        convert_to_deltalake(path)
        self._spark = spark
        self._path = path

    def frame(self) -> DataFrame:
        """Of the state that the table has now."""
        from deltalake import DeltaTable

        return self._spark.read.parquet(*DeltaTable(self._path).file_uris())


def write(frame: DataFrame, path: str) -> None:
    from deltalake import write_deltalake

    write_deltalake(path, frame.toArrow())
