"""What a query can ask about the server and the session: constants that the engine passes in."""

from __future__ import annotations

from collections.abc import Callable

from sql.functions.registry import Call, define
from sql.typed import UINT32, Typed, cast, literal


def _constant(key: str, default: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.environment.constants.get(key, default)
        return literal(call.environment.zone if key == "timezone" and key not in call.environment.constants else value)

    return build


for _names, _key, _default in (
    ("version", "version", "0"),
    ("currentDatabase DATABASE SCHEMA current_database", "currentDatabase", "default"),
    ("hostName", "hostName", "localhost"),
    ("FQDN fullHostName", "hostName", "localhost"),
    ("currentUser user authenticatedUser", "currentUser", "default"),
    ("queryID query_id", "queryID", ""),
    ("timezone timeZone", "timezone", "UTC"),
    ("serverTimezone serverTimeZone", "serverTimezone", "UTC"),
    ("displayName", "displayName", "pando"),
    ("buildId", "buildId", ""),
):
    define(_names, _constant(_key, _default), 0, any_case=True)


def _uptime(call: Call) -> Typed:
    return Typed(cast(str(int(float(call.environment.constants.get("uptime", "0")))), UINT32), UINT32)


define("uptime", _uptime, 0)
define("ignore", lambda call: literal(0), (0, None), nulls=False)
define("tcpPort", lambda call: literal(int(call.environment.constants.get("tcpPort", "9000"))), 0)
