"""``pando recovery``: compares disk with ZooKeeper, and orders a restore.

It reads the server's configuration and the definitions on its disk, so it works whether the server runs or not. A
running server reacts to the flag within seconds; a stopped one at its next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from coordination.keeper.interface import Keeper
    from coordination.nodes.paths import ReplicaPaths
    from engine.server.config import Config
    from engine.tables.table_definition import TableDefinition
    from recovery.replica_inspection import ReplicaInspection

_CONNECT_SECONDS = 10.0
_config = click.option(
    "--config",
    "config_file",
    default="config.yaml",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The server's configuration file.",
)


@dataclass(frozen=True)
class _Replica:
    """A replicated table of this server."""

    table: str
    zookeeper_name: str
    paths: ReplicaPaths
    data_path: Path
    max_ratio: float


@click.group("recovery")
def command() -> None:
    """Look at, and mend, what disk and ZooKeeper disagree on.

    \b
    pando recovery status --config r2/config.yaml
    pando recovery force-restore-data --config r2/config.yaml --table default.hits --dry-run
    pando recovery force-restore-data --config r2/config.yaml --all
    """


@command.command("status")
@_config
def status(config_file: Path) -> None:
    """Compare the parts on disk with ZooKeeper, for every replicated table of the server."""
    with _open_replicas(config_file, None) as replicas:
        for keeper, replica in replicas:
            _print_inspection(replica, _inspect_replica(keeper, replica))


@command.command("force-restore-data")
@_config
@click.option("--table", help="One table, as database.table.")
@click.option("--all", "is_all", is_flag=True, help="Every replicated table of the server.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be fetched and what moved to detached/.")
def force_restore_data(config_file: Path, table: str | None, is_all: bool, dry_run: bool) -> None:
    """Restore suspicious tables from the other replicas.

    Nothing is deleted: unwanted parts are moved to detached/.
    """
    from recovery import force_restore_flag

    if bool(table) == is_all:
        raise click.UsageError("give either --table database.table or --all")
    with _open_replicas(config_file, table) as replicas:
        for keeper, replica in replicas:
            inspection = _inspect_replica(keeper, replica)
            _print_inspection(replica, inspection)
            if is_all and inspection.forgotten:
                click.echo(
                    "  flag force_restore_data is not set: name the table to have these parts moved to detached/"
                )
            elif inspection.exists and not dry_run:
                force_restore_flag.set_flag(keeper, replica.paths)
                click.echo("  flag force_restore_data is set; the server restores the table at once or at its start")


def _inspect_replica(keeper: Keeper, replica: _Replica) -> ReplicaInspection:
    from recovery.replica_inspection import inspect_replica

    return inspect_replica(keeper, replica.paths, replica.data_path, replica.max_ratio, replica.table)


def _print_inspection(replica: _Replica, inspection: ReplicaInspection) -> None:
    plan = inspection.plan
    if not inspection.exists:
        click.echo(f"{replica.table}: replica {inspection.replica} is not in ZooKeeper")
        return
    verdict = "refused" if inspection.refusal else "differs" if not plan.is_clean or inspection.broken else "in order"
    activity = "active" if inspection.is_active else "not active"
    click.echo(f"{replica.table}: {verdict} ({inspection.replica}, {activity})")
    if inspection.refusal:
        click.echo(f"  {inspection.refusal}")
    if inspection.is_flagged:
        click.echo("  flag force_restore_data is set")
    for label, names in (
        ("fetch", plan.fetch),
        ("detach as broken", [*plan.different_content, *inspection.broken]),
        ("list as another replica does", plan.agreed),
        ("detach as ignored", plan.unexpected),
        ("drop, merged away", plan.covered),
    ):
        if names:
            click.echo(f"  {label}: {', '.join(map(str, names))}")


@contextmanager
def _open_replicas(config_file: Path, only: str | None) -> Iterator[list[tuple[Keeper, _Replica]]]:
    """Gives the replicated tables, or the named one, with the keepers of their ZooKeepers.

    Raises ``ConfigError`` without a configuration, 60 (UNKNOWN_TABLE), 999 (KEEPER_EXCEPTION) without ZooKeeper.
    """
    from engine.server.config import Config, ConfigError
    from parts.common.errors import UserError

    config = Config.load(config_file)
    if config.zookeeper is None and not config.auxiliary_zookeepers:
        raise ConfigError(f"{config_file} names no zookeeper: there are no replicated tables to look at")
    found = list(_list_replicated_tables(config))
    replicas = [replica for replica in found if only in (None, replica.table)]
    if only is not None and not replicas:
        known = ", ".join(replica.table for replica in found) or "none"
        raise UserError("UNKNOWN_TABLE", f"There is no replicated table {only} here; there are: {known}")
    keepers: dict[str, Keeper] = {}
    try:
        for name in sorted({replica.zookeeper_name for replica in replicas}):
            keepers[name] = _connect(config, name)
        yield [(keepers[replica.zookeeper_name], replica) for replica in replicas]
    finally:
        for keeper in keepers.values():
            keeper.close()


def _connect(config: Config, name: str) -> Keeper:
    from coordination.keeper.kazoo_keeper import KazooKeeper
    from engine.server.config import ConfigError
    from parts.common.errors import UnavailableError

    zookeeper = {**config.auxiliary_zookeepers, "default": config.zookeeper}.get(name)
    if zookeeper is None:
        raise ConfigError(f"The configuration does not name the ZooKeeper {name!r}, which a table needs")
    keeper = KazooKeeper(zookeeper.hosts, zookeeper.session_timeout_ms / 1000, zookeeper.root)
    if not keeper.wait_connected(_CONNECT_SECONDS):
        keeper.close()
        raise UnavailableError("KEEPER_EXCEPTION", f"ZooKeeper {zookeeper.hosts} does not answer")
    return keeper


def _list_replicated_tables(config: Config) -> Iterator[_Replica]:
    from coordination.nodes.paths import TablePaths
    from sql.definitions.engines.replica_location import find_replica_location

    for definition in _read_definitions(config):
        if definition.is_replicated:
            location = find_replica_location(
                definition.create,
                macros=config.macros,
                database=definition.database,
                table=definition.name,
                default_path=config.default_replica_path,
                default_name=config.default_replica_name,
            )
            yield _Replica(
                definition.full_name,
                location.zookeeper_name,
                TablePaths(location.zookeeper_path).replica(location.replica_name),
                definition.data_path,
                definition.settings.replicated_max_ratio_of_wrong_parts,
            )


def _read_definitions(config: Config) -> Iterator[TableDefinition]:
    """Yields the tables on a server's disk, without starting them.

    Raises 62 (SYNTAX_ERROR) and others for a damaged definition.
    """
    from engine.catalog.kept_definitions import KeptDefinitions

    definitions = KeptDefinitions.of(config)
    for database, name in definitions.names_on_disk():
        yield definitions.read(database, name)
