"""``pando``: one command with a subcommand per job, each in its own file under ``engine/commands``.

A subcommand's module is imported only when it runs, so that ``pando --help`` and the client start fast. Every expected
failure is one line on standard error and exit code 1.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

_COMMANDS = {
    "local": ("engine.commands.local", "Run SQL in this process, without a server."),
    "server": ("engine.commands.server", "Run one server."),
    "client": ("engine.commands.client", "Run SQL on a server, interactively or from a pipe."),
    "export": ("engine.commands.export", "Write a table as files of Parquet that all servers and Spark see."),
    "load": ("engine.commands.load", "Bring a folder of Parquet into a table, all of it or nothing."),
    "spark-sql": ("spark_connector.spark_sql_command", "Run Spark SQL over the tables of a cluster."),
    "cluster": ("engine.commands.cluster", "Start and stop a cluster of replicas on this machine."),
    "link": ("engine.commands.link", "Show, pause and repair the links of a cluster with others."),
    "zookeeper": ("engine.commands.zookeeper", "Run a ZooKeeper in the foreground."),
    "simulate": ("engine.commands.simulate", "Run whole servers in one thread, under random faults."),
    "recovery": ("engine.commands.recovery", "Look at, and mend, what disk and ZooKeeper disagree on."),
}
_SETTINGS_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _LazyGroup(click.Group):
    """A click group that imports a subcommand's module only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a subcommand's module and returns its command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands from the table, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings=_SETTINGS_CONTEXT)
@click.version_option(package_name="pando", prog_name="pando", message="%(prog)s %(version)s")
def cli() -> None:
    """Pando: a replicated columnar table engine that speaks ClickHouse's SQL.

    \b
    Try it:
      pando local --query "SELECT 1 + 1"
      pando cluster start --replicas 3 --dir ./cluster
      pando client --port 8123
    """


def main() -> None:
    """Runs the command line; expected errors become one line on standard error and exit code 1."""
    from parts.common.errors import PandoError

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")  # else pydantic searches all installed packages
    try:
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PandoError as error:
        from engine.server.config import ConfigError

        text = error.message if isinstance(error, ConfigError) else str(error)
        click.echo(f"pando: {text}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        click.echo(f"pando: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
