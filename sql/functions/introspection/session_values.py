"""Functions about the server and the session: constants that the engine passes in."""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import ArrayType, StringType, UUIDType
from sql.functions.registry import Call, define, function
from sql.settings.session_settings import (
    canonical_name,
    get_default_value,
)
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)
from sql.typing.duckdb.sql_fragments import RAISES, fragment, join_fragments
from sql.typing.texts.address_texts import uuid_of_text
from sql.typing.typed_expressions import INT32, UINT8, UINT32, UINT64, Typed, cast, literal, string_literal


def _build_constant(key: str, default: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.environment.constants.get(key, default)
        return literal(call.environment.zone if key == "timezone" and key not in call.environment.constants else value)

    return build


for _names, _key, _default in (
    ("version", "version", "0"),
    ("currentDatabase DATABASE SCHEMA current_database", "currentDatabase", "default"),
    ("hostName hostname", "hostName", "localhost"),
    ("FQDN fullHostName", "hostName", "localhost"),
    ("currentUser user authenticatedUser", "currentUser", "default"),
    ("queryID query_id", "queryID", ""),
    ("timezone timeZone", "timezone", "UTC"),
    ("serverTimezone serverTimeZone", "serverTimezone", "UTC"),
    ("initialQueryID initial_query_id", "queryID", ""),
    ("displayName", "displayName", "pando"),
    ("buildId", "buildId", ""),
):
    define(_names, _build_constant(_key, _default), 0)


def _uptime(call: Call) -> Typed:
    return Typed(cast(str(int(float(call.environment.constants.get("uptime", "0")))), UINT32), UINT32)


define("uptime", _uptime, 0)
define("tcpPort", lambda call: literal(int(call.environment.constants.get("tcpPort", "9000"))), 0)


@function("ignore", (0, None), nulls=False)
def _ignore(call: Call) -> Typed:
    """Compiles ``ignore(…)``: zero. Only arguments that may raise an error are computed."""
    raising = [fragment("{} IS NULL", arg.sql) for arg in call.args if arg.sql.traits & RAISES]
    if not raising:
        return literal(0)
    return Typed(
        fragment("(CASE WHEN {} THEN false ELSE false END)", join_fragments(" OR ", raising)), UINT8, is_condition=True
    )


@function("getSetting", 1, nulls=False)
def _get_setting(call: Call) -> Typed:
    name = canonical_name(call.constant_text(0))
    settings = call.environment.settings
    honoured = SUPPORTED_SETTINGS.get(name)
    if honoured is not None:
        return literal(getattr(settings, name))
    return literal(settings.changes.get(name, get_default_value(name)))


@function("currentPosition", 1, nulls=False)
def _current_position(call: Call) -> Typed:
    """Compiles ``currentPosition('db.t')``, a function of Pando's own: the text of a position."""
    return literal(call.environment.positions.current_position(call.constant_text(0)))


@function("lastCut", 1, nulls=False)
def _last_cut(call: Call) -> Typed:
    """Compiles ``lastCut('db.t')``, a function of Pando's own: the cut of a group of links that is read."""
    return literal(call.environment.positions.last_cut(call.constant_text(0)))


@function("inSyncClusters", 2, nulls=False)
def _in_sync_clusters(call: Call) -> Typed:
    """Compiles ``inSyncClusters('db.t', position)``, a function of Pando's own: names of clusters, sorted."""
    names = call.environment.positions.in_sync_clusters(call.constant_text(0), call.constant_text(1))
    texts = join_fragments(", ", map(string_literal, names))
    return Typed(fragment("CAST([{}] AS VARCHAR[])", texts), ArrayType(StringType()))


_GLOBAL_VARIABLES = {
    "max_allowed_packet": 67_108_864,
    "version": "5.7.30",
    "version_comment": "",
    "transaction_isolation": "READ-UNCOMMITTED",
    "sql_mode": "ALLOW_INVALID_DATES,ANSI_QUOTES,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,NO_DIR_IN_CREATE,"
    "ONLY_FULL_GROUP_BY,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,REAL_AS_FLOAT",
}
"""ClickHouse's answers to clients for MySQL; a variable that is not here is 0."""


@function("globalVariable", 1, nulls=False)
def _global_variable(call: Call) -> Typed:
    name = call.args[0].value
    if not isinstance(name, str):
        raise UserError("BAD_ARGUMENTS", f"Argument of function {call.name} must be constant string")
    value = _GLOBAL_VARIABLES.get(name.lower(), 0)
    return literal(value) if isinstance(value, str) else Typed(cast(str(value), INT32), INT32)


def _profiles(call: Call) -> Typed:
    names = call.environment.constants.get("profiles", "default").split(",")
    return Typed(fragment("[{}]", join_fragments(", ", map(string_literal, names))), ArrayType(StringType()))


define("currentProfiles enabledProfiles defaultProfiles", _profiles, 0)
define(
    "currentRoles enabledRoles defaultRoles",
    lambda _: Typed(fragment("CAST([] AS VARCHAR[])"), ArrayType(StringType())),
    0,
)
define("revision", lambda _: Typed(cast("54515", UINT32), UINT32), 0)
define("connectionId connection_id", lambda _: Typed(cast("0", UINT64), UINT64), 0)


@function("serverUUID", 0)
def _server_uuid(call: Call) -> Typed:
    given = call.environment.constants.get("serverUUID", "00000000-0000-0000-0000-000000000000")
    return Typed(uuid_of_text(string_literal(given)), UUIDType())
