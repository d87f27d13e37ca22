"""Makes the jar by which rows do not go through Python workers, and adds it to sessions.

The Scala compiler is one of Spark's own jars, so that Spark and its Java are all that it takes. A jar is made once for
each version of the sources and of Spark, in ``$XDG_CACHE_HOME/pando`` (``~/.cache/pando``). Several processes may make
it at the same time: each writes a file of its own and renames it. A wheel (``make wheel``) holds the jar for one Spark.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from parts.common.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPILER = "scala.tools.nsc.Main"
_SHOWN_CHARACTERS = 2000
_PACKAGED = Path(__file__).parent
"""Where a wheel has its jar."""


def add_jar(spark: SparkSession) -> Path:
    """Adds the jar to a session that runs, whose format ``pando`` it then is; returns its path.

    Raises ``UserError`` as :func:`make_jar` does.
    """
    jar = make_jar()
    path = str(jar).replace("'", "\\'")
    spark.sql(f"ADD JAR '{path}'")
    return jar


def make_jar() -> Path:
    """Returns the jar, and makes it if there is none: that takes some ten seconds.

    Raises ``UserError`` 79 if Spark's jars or Java are missing, 36 if the sources do not compile with this Spark.
    """
    jars = _find_spark_jars()
    sources = sorted(Path(__file__).parent.glob("*.scala"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    name = f"pando-spark-{_find_version(jars)}-{digest}.jar"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pando"
    jar = folder / name
    for found in (_PACKAGED / name, jar):
        if found.exists():
            return found
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "made.jar"
        _compile(sources, jars, made)
        made.replace(jar)
    return jar


def _compile(sources: list[Path], jars: Path, made: Path) -> None:
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
    command = [_find_java(), *options, _COMPILER, "-usejavacp", "-d", str(made), *map(str, sources)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        said = (answer.stdout + answer.stderr).strip()[:_SHOWN_CHARACTERS]
        raise UserError("BAD_ARGUMENTS", f"The Scala sources of Pando do not compile with the Spark in {jars}: {said}")


def _find_spark_jars() -> Path:
    """Returns the folder of the jars of the Spark that PySpark starts."""
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home()) / "jars"
    if not list(jars.glob("scala-compiler*.jar")):
        raise UserError(
            "INCORRECT_FILE_NAME",
            f"There is no Scala compiler in {jars}: Pando's jar is made by the one that Spark ships. Set "
            "SPARK_HOME to a whole Spark, or install PySpark with pip (pip install pyspark)",
        )
    return jars


def _find_version(jars: Path) -> str:
    """Returns Spark's version, as the name of its jar tells it."""
    names = sorted(file.stem for file in jars.glob("spark-sql_*.jar"))
    if not names:
        raise UserError("INCORRECT_FILE_NAME", f"There is no spark-sql in {jars}: set SPARK_HOME to a whole Spark")
    return names[0].removeprefix("spark-sql_")


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise UserError(
            "INCORRECT_FILE_NAME",
            f"There is no java {where}: Spark needs it too (apt-get install openjdk-17-jre-headless)",
        )
    return found
