"""The command ``pando spark-sql``: Spark SQL over the tables of a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click


def _parse_pairs(given: tuple[str, ...], what: str) -> dict[str, str]:
    for item in given:
        if "=" not in item:
            raise click.BadParameter(f"{item!r} is not name=value", param_hint=what)
    return dict(item.split("=", 1) for item in given)


@click.command("spark-sql", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--url", default="http://127.0.0.1:8123", show_default=True, help="Replicas, separated by commas.")
@click.option("-d", "--database", default="default", show_default=True)
@click.option("-u", "--user", default="")
@click.option("--password-file", type=click.Path(dir_okay=False), help="A file with the password.")
@click.option("-e", "--execute", "texts", multiple=True, help="Statements to run.")
@click.option("-f", "--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("-o", "--option", "options", multiple=True, help="An option of the format pando, name=value.")
@click.option("--conf", "configuration", multiple=True, help="Spark's configuration, name=value.")
def command(
    url: str,
    database: str,
    user: str,
    password_file: str | None,
    texts: tuple[str, ...],
    files: tuple[Path, ...],
    master: str,
    options: tuple[str, ...],
    configuration: tuple[str, ...],
) -> None:
    """Spark SQL with a view of every MergeTree table of a database.

    \b
    pando spark-sql --url http://127.0.0.1:8123,http://127.0.0.1:8124
    pando spark-sql -e "SELECT CounterID, count(*) FROM hits GROUP BY 1"
    """
    from spark_connector.tables import sql_shell

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = _parse_pairs(options, "--option")
    given |= {name: value for name, value in (("user", user), ("password_file", password_file)) if value}
    scripts = [*texts, *(file.read_text() for file in files)]
    sql_shell.run_shell(url, database, scripts, given, master, _parse_pairs(configuration, "--conf"))
