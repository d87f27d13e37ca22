"""``python -m tests.spark.other_versions 4.2.1 …``: the format, the catalog and a stream with other versions of Spark.

Each is installed into a temporary folder (some minutes, and 700 MB), where the jar is compiled for it. The servers are
of this environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from engine.cluster.cluster import Cluster

ROOT = Path(__file__).parents[2]
ROWS = 20_000
_SECONDS = 600


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["job"]:
        _run_job(arguments[1])
        return 0
    failed = [version for version in arguments if not _try(version)]
    print("all work" if not failed else f"failed: {', '.join(failed)}")
    return int(bool(failed))


def _try(version: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="pando-spark-") as name:
        folder = Path(name)
        target = folder / "packages"
        install = ["-m", "pip", "install", "--quiet", "--no-deps", f"--target={target}", f"pyspark=={version}"]
        subprocess.run([sys.executable, *install], check=True)
        cluster = Cluster(folder / "cluster")
        try:
            port = next(status.http_port for status in cluster.start(1) if status.http_port)
            environment = {
                **os.environ,
                "PYTHONPATH": f"{target}:{ROOT}",
                "SPARK_HOME": str(target / "pyspark"),
                "PYSPARK_PYTHON": sys.executable,
                "XDG_CACHE_HOME": str(folder / "cache"),
            }
            command = [sys.executable, "-m", "tests.spark.other_versions", "job", f"http://127.0.0.1:{port}"]
            done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=_SECONDS)
        finally:
            cluster.stop()
    print(f"Spark {version}: {'works' if done.returncode == 0 else 'fails'}", flush=True)
    return done.returncode == 0


def _run_job(url: str) -> None:
    from pyspark.sql import SparkSession

    from spark_connector import configure

    settings = {
        "spark.pando.url": url,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    configure(spark)
    table = "pando.default.shop"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, s STRING, d DECIMAL(9, 2), day DATE) PARTITIONED BY (day) "
        "TBLPROPERTIES ('setting.enable_block_number_column' = '1')"
    )
    rows = spark.range(ROWS).selectExpr(
        "id",
        "CAST(id % 3 AS STRING) s",
        "CAST(id / 4 AS DECIMAL(9, 2)) d",
        "DATE'2020-01-01' + CAST(id % 3 AS INT) day",
    )
    rows.writeTo(table).append()
    frame = spark.read.format("pando").options(url=url, table="shop").load()
    assert not frame.exceptAll(rows).take(1)
    total = Decimal(ROWS * (ROWS - 1) // 2) / 4
    assert spark.sql(f"SELECT count(*), sum(d), max(s), max(_part) > '' FROM {table}").collect() == [
        (ROWS, total, "2", True)
    ]
    assert [row.id for row in frame.orderBy(frame.id.desc()).limit(2).collect()] == [ROWS - 1, ROWS - 2]
    spark.sql(f"DELETE FROM {table} WHERE id < 10")
    assert spark.table(table).where("d >= 0").count() == ROWS - 10
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = spark.readStream.table(table).writeStream.format("memory").queryName("seen")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    assert spark.table("seen").count() == ROWS - 10
    spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
