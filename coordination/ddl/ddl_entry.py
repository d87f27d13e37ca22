"""Entries of distributed DDL and their outcomes, as compact JSON in ZooKeeper.

An entry has ``version``, ``statement`` (without ON CLUSTER), ``database`` (the initiator's current one), ``cluster``,
``shards``, ``initiator`` and ``user``. It also has ``settings`` (the changed ones) and ``parameters`` (values of
``{name:Type}``). A shard is a list of ``[host, port, default database]``. An outcome has ``version``, ``code``
(ClickHouse's; 0: done), ``error`` and ``duration_ms``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from parts.common.errors import PandoError, UserError, make_error_from_code

VERSION = 1
_LONGEST_ERROR = 4096
SettingValue = bool | int | float | str


@dataclass(frozen=True, slots=True)
class DdlHost:
    """A server, as it is named in the initiator's cluster. ``id`` names its znodes."""

    host: str
    port: int
    default_database: str = ""

    @property
    def id(self) -> str:
        """``host:port``, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class DdlEntry:
    """A statement, the cluster that executes it, and the initiator's context."""

    statement: str
    database: str
    cluster: str
    shards: tuple[tuple[DdlHost, ...], ...]
    initiator: str = ""
    user: str = "default"
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    version: int = VERSION

    @property
    def hosts(self) -> list[DdlHost]:
        """The hosts of all shards."""
        return [host for shard in self.shards for host in shard]

    def shard_of(self, host: DdlHost) -> int:
        """Returns the number of the host's shard, from 0."""
        return next(number for number, shard in enumerate(self.shards) if host in shard)

    def encode(self) -> bytes:
        """Returns the entry as JSON."""
        shards = [[[host.host, host.port, host.default_database] for host in shard] for shard in self.shards]
        return _json(
            {
                "version": self.version,
                "statement": self.statement,
                "database": self.database,
                "cluster": self.cluster,
                "shards": shards,
                "initiator": self.initiator,
                "user": self.user,
                "settings": dict(self.settings),
                "parameters": dict(self.parameters),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> DdlEntry:
        """Parses an entry. Raises 36 (BAD_ARGUMENTS) for anything else or a later version."""
        try:
            found = json.loads(data)
            version = int(found["version"])
            if version > VERSION:
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"The entry has version {version}, this server knows {VERSION}: run the same version everywhere",
                )
            shards = tuple(
                tuple(DdlHost(str(host), int(port), str(database)) for host, port, database in shard)
                for shard in found["shards"]
            )
            return cls(
                str(found["statement"]),
                str(found["database"]),
                str(found["cluster"]),
                shards,
                str(found.get("initiator", "")),
                str(found.get("user", "default")),
                dict(found.get("settings", {})),
                {str(name): str(value) for name, value in dict(found.get("parameters", {})).items()},
                version,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError("BAD_ARGUMENTS", f"Not an entry of distributed DDL: {error!r}") from None


@dataclass(frozen=True, slots=True)
class DdlOutcome:
    """The outcome of a statement on one server. ``code`` 0: it succeeded."""

    code: int = 0
    error: str = ""
    duration_ms: int = 0

    def encode(self) -> bytes:
        """Returns the outcome as JSON."""
        return _json({"version": VERSION, "code": self.code, "error": self.error, "duration_ms": self.duration_ms})

    @classmethod
    def decode(cls, data: bytes) -> DdlOutcome:
        """Parses an outcome. A node that cannot be read gives an outcome with code 1001."""
        try:
            found = json.loads(data)
            return cls(int(found["code"]), str(found["error"]), int(found.get("duration_ms", 0)))
        except (ValueError, KeyError, TypeError):
            return cls(1001, f"The outcome cannot be read: {data[:100]!r}")

    @classmethod
    def from_error(cls, error: PandoError, duration_ms: int = 0) -> DdlOutcome:
        """Makes the outcome of a failed statement."""
        return cls(error.code, error.message[:_LONGEST_ERROR], duration_ms)

    def to_error(self, host: str) -> PandoError:
        """Returns the error, as the initiator raises it for that server."""
        return make_error_from_code(self.code, f"There was an error on [{host}]: {self.error}")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
