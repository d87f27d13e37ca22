"""The servers that hold a table's shards: configured clusters, and the addresses of ``remote(…)``.

The addresses of ``remote`` are one text of ``host[:port]``, in which ``{1..3}`` and ``{a,b}`` stand for several. Commas
separate shards, bars the replicas of one. Source: ClickHouse documentation, "remote, remoteSecure".
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field, replace

from engine.server.config import Config
from engine.server.remote_servers_config import HOST, RemoteReplicaConfig
from parts.common.errors import UserError
from sql.settings.session_settings import suggest_names

_MOST_ADDRESSES = 1000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_HTTP_PORT = 8123


@dataclass(frozen=True, slots=True)
class Address:
    """One server, and the user and password for queries to it."""

    host: str
    port: int
    user: str = "default"
    password: str = field(default="", repr=False)
    default_database: str = ""
    priority: int = 1
    """Replicas with the lowest value are asked first."""
    cluster: str = ""
    secret: str = field(default="", repr=False)
    """The secret shared by the servers of ``cluster``; with it queries are sent in the name of their own user."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Shard:
    """Servers with the same rows. ``number`` begins at 1."""

    number: int
    replicas: tuple[Address, ...]
    weight: int = 1
    name: str = ""
    internal_replication: bool = True
    """Rows are written to one replica, from which the others copy; otherwise to every replica."""

    @property
    def receivers(self) -> tuple[Shard, ...]:
        """Groups of replicas; one replica of each group must take the rows of an INSERT."""
        if self.internal_replication:
            return (self,)
        return tuple(replace(self, replicas=(replica,)) for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class ServerCluster:
    """The shards of a cluster; ``name`` is empty if they come from addresses."""

    name: str
    shards: tuple[Shard, ...]

    @property
    def replicas_as_shards(self) -> ServerCluster:
        """The cluster with every replica as its own shard."""
        addresses = [address for shard in self.shards for address in shard.replicas]
        return ServerCluster(self.name, tuple(Shard(number, (found,)) for number, found in enumerate(addresses, 1)))


def get_configured_cluster(config: Config, name: str) -> ServerCluster:
    """Returns a cluster of the configuration. Raises 701 (CLUSTER_DOESNT_EXIST)."""
    shards = config.remote_servers.get(name)
    if shards is None:
        near = suggest_names(name, config.remote_servers)
        raise UserError("CLUSTER_DOESNT_EXIST", f"Requested cluster '{name}' not found{near}")
    secret = config.cluster_secrets.get(name, "")
    return ServerCluster(
        name,
        tuple(
            Shard(
                number,
                tuple(_make_address(replica, name, secret) for replica in shard.replicas),
                shard.weight,
                shard.name or str(number),
                shard.internal_replication,
            )
            for number, shard in enumerate(shards, 1)
        ),
    )


def _make_address(replica: RemoteReplicaConfig, cluster: str, secret: str) -> Address:
    return Address(
        replica.host, replica.port, replica.user, replica.password, replica.default_database, replica.priority,
        cluster, secret,
    )  # fmt: skip


def parse_addresses(text: str, config: Config, user: str = "default", password: str = "") -> ServerCluster:
    """Parses the addresses of ``remote(…)``.

    Raises 36 (BAD_ARGUMENTS) for malformed text, 491 (UNACCEPTABLE_URL) for a server that the configuration does not
    allow.
    """
    shards = []
    for number, description in enumerate(_expand_alternatives(text, ","), 1):
        replicas = tuple(
            _parse_address(part, config, user, password) for part in _expand_alternatives(description, "|")
        )
        for address in replicas:
            _check_allowed(address, config)
        shards.append(Shard(number, replicas, name=str(number)))
    return ServerCluster("", tuple(shards))


def is_this_server(address: Address, config: Config) -> bool:
    """Returns whether the address is this server's own."""
    if config.http_port is None:
        return address.port == _HTTP_PORT and address.host in ("127.0.0.1", "localhost", "::1")
    if address.port != config.http_port:
        return False
    found = resolve_host(address.host)
    own = {"127.0.0.1", "::1", resolve_host(socket.gethostname())}
    if config.listen_host not in ("0.0.0.0", "::", "*"):
        own.add(resolve_host(config.listen_host))
    return bool(found) and found in own


def resolve_host(host: str) -> str:
    """Returns the IP address; empty if the name does not resolve."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""


def _check_allowed(address: Address, config: Config) -> None:
    allowed = config.remote_url_allow_hosts
    if allowed is not None and not allowed.allows(address.host, address.port):
        raise UserError(
            "UNACCEPTABLE_URL",
            f'URL "{address}" is not allowed in configuration file, see <remote_url_allow_hosts>',
        )


def _parse_address(text: str, config: Config, user: str, password: str) -> Address:
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", text.strip())
    plain = re.fullmatch(r"([^:]+)(?::(\d+))?", text.strip())
    match = bracketed or plain
    if match is None or re.fullmatch(HOST, match[1]) is None or not 0 < int(match[2] or _HTTP_PORT) < 65536:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Not an address of a server: {text!r}; it is host or host:port (HTTP), without a path or a user",
        )
    return Address(match[1], int(match[2] or config.http_port or _HTTP_PORT), user, password)


def _expand_alternatives(text: str, separator: str) -> list[str]:
    """Expands the text into its pieces between separators, one per combination of choices in braces."""
    done: list[str] = []
    open_: list[str] = [""]
    position = 0
    while position < len(text):
        character = text[position]
        if character == separator:
            done += open_
            open_ = [""]
        elif character == "{":
            end = _find_closing_brace(text, position)
            choices = _list_choices(text[position + 1 : end], separator)
            open_ = [begun + choice for begun in open_ for choice in choices]
            position = end
        else:
            open_ = [begun + character for begun in open_]
        position += 1
        if len(done) + len(open_) > _MOST_ADDRESSES:
            raise UserError("BAD_ARGUMENTS", f"The addresses {text!r} are more than {_MOST_ADDRESSES}")
    return done + open_


def _find_closing_brace(text: str, begin: int) -> int:
    depth = 0
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return position
    raise UserError("BAD_ARGUMENTS", f"A brace is not closed in the addresses {text!r}")


def _list_choices(body: str, separator: str) -> list[str]:
    """Returns the choices in one pair of braces; braces with the other separator stay for later."""
    numbers = _RANGE.fullmatch(body)
    if numbers:
        first, last = int(numbers[1]), int(numbers[2])
        if not first <= last <= first + _MOST_ADDRESSES:
            raise UserError("BAD_ARGUMENTS", f"Not a range of numbers in addresses: {{{body}}}")
        width = len(numbers[1]) if numbers[1].startswith("0") else 0
        return [f"{number:0{width}d}" for number in range(first, last + 1)]
    return _expand_alternatives(body, separator) if separator in body else [f"{{{body}}}"]
