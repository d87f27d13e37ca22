"""The shell of ``pando spark-sql``: Spark SQL over the tables of a database."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from spark_connector.jvm.jar import add_jar
from spark_connector.tables.table_views import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<end>;)|[^;'"`/-]+|.""", re.DOTALL
)
_PROMPT = "pando-spark> "
_GOES_ON = "           > "


def split_statements(text: str) -> tuple[list[str], str]:
    """Returns the statements that a semicolon ends, and the rest behind the last one."""
    found, begin = [], 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            found.append(text[begin : token.start()].strip())
            begin = token.end()
    return [item for item in found if item], text[begin:]


def run_statement(spark: SparkSession, statement: str, out: TextIO) -> None:
    """Runs a statement and writes its rows, with tabs between values, as Spark's own shell does."""
    frame = spark.sql(statement)
    if not frame.columns:
        return
    names = [f"c{number}" for number in range(len(frame.columns))]
    texts = frame.toDF(*names).selectExpr(*(f"CAST({name} AS STRING)" for name in names))
    for row in texts.toLocalIterator():
        out.write("\t".join("NULL" if value is None else value for value in row) + "\n")
    out.flush()


def run_statements(spark: SparkSession, texts: Iterable[str], out: TextIO) -> None:
    """Runs the statements of the texts, in order."""
    for text in texts:
        ended, last = split_statements(text)
        for statement in [*ended, last] if last.strip() else ended:
            run_statement(spark, statement, out)


def run_interactively(spark: SparkSession, lines: Iterator[str], out: TextIO, errors: TextIO) -> None:
    """Runs statements until the lines end, or ``quit``; reports errors and goes on."""
    text = ""
    for line in lines:
        text += line
        if text.strip().rstrip(";").lower() in ("quit", "exit"):
            return
        ended, text = split_statements(text)
        for statement in ended:
            try:
                run_statement(spark, statement, out)
            except Exception as error:
                errors.write(f"{str(error).partition(chr(10) + chr(10) + 'JVM stacktrace')[0].strip()}\n")


def start_session(
    url: str, database: str, options: Mapping[str, str], master: str, configuration: Mapping[str, str]
) -> SparkSession:
    """Starts a quiet session with a view of each table."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("pando spark-sql")
    for name, value in {"spark.ui.enabled": "false", "spark.log.level": "ERROR", **configuration}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    add_jar(spark)
    names = register(spark, url, database, **options)
    print(f"{len(names)} tables of {database}: {', '.join(names)}", file=sys.stderr)
    return spark


def prompt_for_lines() -> Iterator[str]:
    """Yields typed lines; later lines of a statement have another prompt."""
    import readline  # noqa: F401 (input() edits lines with it)

    rest = ""
    while True:
        try:
            line = input(_GOES_ON if rest.strip() else _PROMPT) + "\n"
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            rest = ""
            continue
        yield line
        rest = split_statements(rest + line)[1]


def run_shell(
    url: str,
    database: str,
    texts: Sequence[str],
    options: Mapping[str, str],
    master: str,
    configuration: Mapping[str, str],
) -> None:
    """Runs the statements of ``texts``, or of the terminal or standard input."""
    spark = start_session(url, database, options, master, configuration)
    try:
        if texts:
            run_statements(spark, texts, sys.stdout)
        elif sys.stdin.isatty():
            run_interactively(spark, prompt_for_lines(), sys.stdout, sys.stderr)
        else:
            run_statements(spark, [sys.stdin.read()], sys.stdout)
    finally:
        spark.stop()
