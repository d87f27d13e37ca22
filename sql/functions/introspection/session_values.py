"""Functions about the server and the session: constants that the engine passes in."""

from __future__ import annotations

from collections.abc import Callable

from parts.types import ArrayType, StringType, UUIDType
from sql.functions.registry import Call, define, function
from sql.settings.session_settings import (
    canonical_name,
    default_value,
)
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)
from sql.typing.duckdb.sql_fragments import RAISES, fragment, join_fragments
from sql.typing.texts.address_texts import uuid_of_text
from sql.typing.typed_expressions import UINT8, UINT32, UINT64, Typed, cast, literal, string_literal


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
    return literal(settings.changes.get(name, default_value(name)))


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
