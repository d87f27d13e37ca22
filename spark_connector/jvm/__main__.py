"""Prints the path of the jar: ``spark-submit --jars $(python -m spark_connector.jvm)``."""

from __future__ import annotations

from spark_connector.jvm.jar import make_jar

print(make_jar())
