"""``pando link``: shows the links of a server's cluster, pauses them, and lets them go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from engine.commands.process_startup import block_httpx_command_import

if TYPE_CHECKING:
    from engine.http_client.http_client import HttpClient

_ANSWER_SECONDS = 300.0
_COLUMNS = ("LINK", "FROM", "TO", "STATE", "LAG", "BEHIND", "APPLIED", "ERRORS")


def _connection(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the server to ask."""
    for option in (
        click.option("--password", envvar="PANDO_PASSWORD", default="", help="Also from PANDO_PASSWORD."),
        click.option("--user", "-u", default="default", show_default=True),
        click.option("--port", default=8123, show_default=True, type=click.IntRange(1, 65535), help="HTTP port."),
        click.option("--host", default="127.0.0.1", show_default=True),
    ):
        function = option(function)
    return function


@click.group("link")
def command() -> None:
    """Look after the links of a cluster, through any of its servers.

    \b
    pando link status --port 8123
    pando link pause hits_from_west
    pando link resume hits_from_west
    pando link repair hits_from_west
    """


@command.command("status")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs: all that system.replication_links has.")
@_connection
def status(name: str | None, as_json: bool, **server: Any) -> None:
    """Show all links, or the one of this NAME, with what is wrong and what helps.

    The exit code is 1 if a link is stopped, and 0 otherwise.
    """
    with _connect(**server) as client:
        links = _read(client, name)
    if as_json:
        click.echo(json.dumps(links, indent=2))
    elif not links:
        click.echo("There are no links here")
    else:
        _print(links)
    if any(link["upstream_status"] == "stopped" and link["state"] != "disabled" for link in links):
        raise click.exceptions.Exit(1)


@command.command("pause")
@click.argument("name")
@_connection
def pause(name: str, **server: Any) -> None:
    """Let a link rest; it keeps its place. Runs at the cluster that the link brings changes to."""
    with _connect(**server) as client:
        client.execute(f"ALTER REPLICATION LINK {_quote(name)} DISABLE")
    click.echo(f"{name} rests; `pando link resume {name}` lets it go on")


@command.command("resume")
@click.argument("name")
@_connection
def resume(name: str, **server: Any) -> None:
    """Let a paused link go on where it was."""
    with _connect(**server) as client:
        client.execute(f"ALTER REPLICATION LINK {_quote(name)} ENABLE")
    click.echo(f"{name} goes on")


@command.command("repair")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_connection
def repair(name: str, yes: bool, **server: Any) -> None:
    """Copy the table of a stopped link anew; say what helps if the link is not stopped.

    The copy takes the place of the rows that the table has here now.
    """
    with _connect(**server) as client:
        (link,) = _read(client, name)
        if link["direction"] != "in":
            raise click.ClickException(f"{name} takes changes from here: repair it at cluster {link['peer']}")
        if link["state"] == "disabled":
            click.echo(f"{name} is disabled: `pando link resume {name}` lets it go on")
        elif link["upstream_status"] != "stopped":
            click.echo(f"{name} is not stopped ({link['upstream_status']}){_colon(link['message'])}")
        else:
            table = f"{link['database']}.{link['table']}"
            click.echo(f"{name} is stopped{_colon(link['message'])}")
            if not yes:
                click.confirm(f"Copy {table} anew from cluster {link['peer']} over the rows that it has?", abort=True)
            client.execute(f"SYSTEM BOOTSTRAP REPLICATION LINK {_quote(name)}")
            click.echo(f"{table} is copied anew; `pando link status {name}` shows how far it is")


def _connect(host: str, port: int, user: str, password: str) -> HttpClient:
    block_httpx_command_import()
    from engine.http_client.http_client import HttpClient

    return HttpClient(host, port, user=user, password=password, timeout_seconds=_ANSWER_SECONDS)


def _read(client: HttpClient, name: str | None) -> list[dict[str, Any]]:
    """Returns the links, or the one of this name. Raises ``ClickException`` if there is none."""
    where = "" if name is None else f" WHERE name = {_quote(name)}"
    text = client.execute(
        f"SELECT * FROM system.replication_links{where} ORDER BY direction, name FORMAT JSON "
        "SETTINGS output_format_json_quote_64bit_integers = 0"
    ).text
    links: list[dict[str, Any]] = json.loads(text)["data"]
    if name is not None and not links:
        raise click.ClickException(f"There is no link {name} here; `pando link status` lists all")
    return links


def _quote(text: str) -> str:
    from sql.grammar.tokens import quote_string

    return quote_string(text)


def _colon(message: str) -> str:
    return f": {message}" if message else ""


def _print(links: list[dict[str, Any]]) -> None:
    rows = [_COLUMNS, *map(_make_row, links)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number and (message := links[number - 1]["message"]):
            click.echo(f"    {message}")


def _make_row(link: Mapping[str, Any]) -> tuple[str, ...]:
    here = f"{link['database']}.{link['table']}"
    other = link["peer"] + (f": {link['peer_database']}.{link['peer_table']}" if link["peer_table"] else "")
    ends = (other, here) if link["direction"] == "in" else (here, other)
    state = link["upstream_status"] if link["state"] != "disabled" else "disabled"
    behind, applied = f"{link['rows_behind']} rows", f"{link['rows_applied']} rows"
    return (link["name"], *ends, state, f"{link['lag']:.1f} s", behind, applied, str(link["errors"]))
