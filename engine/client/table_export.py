"""Exports one state of a table as Parquet files in a directory that all servers and Spark see.

The table is divided into slots of equal bytes, as for Spark's tasks; each free server writes the next one, from the
same parts (``/scan/export``). The directory appears when all of its files exist. Its ``_manifest.json`` lists the
columns, the parts, and rows, bytes and hash of each file.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.client.shared_work import ServerGroup, quote_string, quote_table
from parts.common.errors import PandoError, UnknownOutcomeError, UserError

MANIFEST_FILE = "_manifest.json"
_COMPUTED_KINDS = ("ALIAS", "MATERIALIZED", "EPHEMERAL")
_EXISTS_CODE = 641
_LEASE_SECONDS = 300
_MOST_DELAY_SECONDS = 300


@dataclass(frozen=True)
class TableExport:
    """An export: the table, its rows and columns, and the ``directory`` below ``user_files_path``."""

    table: str
    directory: str
    columns: tuple[str, ...] = ()
    filter: str = ""
    with_nanoseconds: bool = False
    bytes_per_file: int = 256 << 20
    parallel: int = 2


def export_table(servers: ServerGroup, export: TableExport) -> dict[str, Any]:
    """Exports the table and returns the manifest.

    Raises 641 (CANNOT_APPEND_TO_FILE) if the directory exists.
    """
    described = servers.require_replicated(quote_table(export.table)).describe(quote_table(export.table))
    types = {row["name"]: row["type"] for row in described if row["default_type"] not in _COMPUTED_KINDS}
    names = list(export.columns) or list(types)
    unknown = next((name for name in names if name not in types), None)
    if unknown is not None:
        raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"{export.table} has no column {unknown!r} with data of its own")
    if read_manifest(servers, export.directory) is not None:
        raise UserError("CANNOT_APPEND_TO_FILE", f"There is an export in {export.directory!r} already: name another")
    database, _, table = export.table.rpartition(".")
    identity = uuid.uuid4().hex
    scan = {
        "database": database or "default",
        "table": table,
        "columns": names,
        "filter": export.filter,
        "max_bytes_per_task": export.bytes_per_file,
    }
    plan = servers.try_in_turn(lambda url: servers.call(url, "/scan/plan", scan))
    slots = max(1, plan["slots"])
    place = {"directory": export.directory, "export": identity}
    request = {
        **scan, **place, "scan": f"export {identity}", "slots": slots, "is_alone": len(servers.urls) == 1,
        "lease_seconds": _LEASE_SECONDS, "max_delay_seconds": _MOST_DELAY_SECONDS,
        "with_nanoseconds": export.with_nanoseconds,
    }  # fmt: skip
    try:
        files = servers.share(
            range(slots),
            lambda url, slot: servers.call(url, "/scan/export", {**request, "slot": slot}),
            export.parallel,
        )
        manifest = _build_manifest(export, identity, {name: types[name] for name in names}, files)
        _publish(servers, place, manifest)
    except BaseException:
        with suppress(PandoError):  # leftovers are recognised by their name
            servers.try_in_turn(lambda url: servers.call(url, "/scan/discard", place))
        raise
    finally:
        for url in servers.urls:
            with suppress(PandoError):
                servers.call(url, "/scan/release", {k: request[k] for k in ("database", "table", "scan")})
    return manifest


def read_manifest(servers: ServerGroup, directory: str) -> dict[str, Any] | None:
    """Returns the manifest of an export, or ``None`` without one.

    Raises 117 (INCORRECT_DATA) for a file that is no manifest.
    """
    path = quote_string(f"{directory.rstrip('/')}/{MANIFEST_FILE}")
    sql = f"SELECT text FROM file({path}, RawBLOB, 'text String') FORMAT RawBLOB"
    try:
        manifest = json.loads(servers.try_in_turn(lambda url: servers.query(url, sql)))
        if manifest["version"] != 1 or not isinstance(manifest["export"], str):
            raise ValueError(f"version {manifest['version']}")
        return dict(manifest)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("INCORRECT_DATA", f"{path} is no manifest of an export: {error!r}") from None
    except PandoError as error:
        if error.name == "FILE_DOESNT_EXIST":
            return None
        raise


def _build_manifest(
    export: TableExport, identity: str, types: dict[str, str], files: list[dict[str, Any]]
) -> dict[str, Any]:
    """Builds the manifest.

    Files without rows are left out, unless there is no other: Spark needs one to know the columns.
    """
    parts = {name: digest for file in files for name, digest in file.pop("parts")}
    kept = [file for file in files if file["rows"]] or files[:1]
    return {
        "version": 1,
        "export": identity,
        "table": export.table,
        "filter": export.filter,
        "columns": [{"name": name, "type": type_} for name, type_ in types.items()],
        "rows": sum(file["rows"] for file in kept),
        "bytes": sum(file["bytes"] for file in kept),
        "files": kept,
        "parts": [{"name": name, "hash": digest} for name, digest in sorted(parts.items())],
    }


def _publish(servers: ServerGroup, place: dict[str, str], manifest: dict[str, Any]) -> None:
    """Gives the directory its name; after a lost response its manifest shows whether that was done."""
    is_known = True

    def publish(url: str) -> None:
        nonlocal is_known
        try:
            servers.call(url, "/scan/publish", {**place, "manifest": manifest})
        except UnknownOutcomeError:
            is_known = False
            raise
        except UserError as error:
            if is_known or error.code != _EXISTS_CODE:
                raise _explain_error(error) from None
            there = read_manifest(servers, place["directory"])
            if there is None or there["export"] != manifest["export"]:
                raise

    servers.try_in_turn(publish)


def _explain_error(error: UserError) -> UserError:
    if error.name != "FILE_DOESNT_EXIST":
        return error
    return UserError(error.name, f"{error.message}. All servers must have the same directory as their user_files_path")
