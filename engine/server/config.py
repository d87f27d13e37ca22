"""The configuration of one server, read from YAML with ClickHouse's own key names.

::

    path: /var/lib/pando
    listen_host: 127.0.0.1
    http_port: 8123                # 0: any free port
    interserver_http_port: 9009
    zookeeper:
      nodes: [{host: zk1, port: 2181}, {host: zk2, port: 2181}]
      session_timeout_ms: 30000
    auxiliary_zookeepers:          # of tables with ENGINE = ReplicatedMergeTree('zk2:/path', …)
      zk2: {nodes: [{host: zk3}]}
    macros: {layer: '01', shard: '01', replica: r1}
    users: {default: {password: '', profile: default}}
    profiles: {default: {max_threads: 8}}
    merge_tree: {max_parts_in_total: 100000}
    remote_servers:                # what Distributed tables and cluster() know by name
      hits: [{weight: 1, replicas: [{host: s1r1}, {host: s1r2}]}, {replicas: [{host: s2r1, port: 8123}]}]
      logs: {shard: [{internal_replication: true, replica: [{host: s1, priority: 1}, {host: s2, priority: 2}]}]}
    distributed_ddl: {path: /clickhouse/task_queue/ddl}     # statements with ON CLUSTER
    cluster_name: east             # this cluster, for replication between clusters
    linked_clusters:               # the others
      west: {urls: ['http://w1:8123', 'http://w2:8123'], user: linker, password: secret}

Every problem of a file is one line that names the key and the file (:class:`ConfigError`).
Source of the names: ClickHouse's server settings.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
)

from engine.server.background_check_config import BackgroundCheckKeys
from engine.server.config_section import Port, Section, Text
from engine.server.graphite_rollup_config import GraphiteSections
from engine.server.links_config import LinkKeys
from engine.server.remote_servers_config import ClusterSections
from engine.server.user_files import UserFiles
from engine.server.zookeeper_config import EmbeddedZooKeeperConfig, ZooKeeperConfig
from parts.common.errors import UserError
from parts.common.process_memory import get_available_bytes
from parts.common.safe_names import check_znode_path
from sql.settings.merge_tree_settings import parse_table_setting
from sql.settings.session_settings import (
    parse_given_settings,
    suggest_names,
)
from sql.settings.setting_values import (
    SettingValue,
    is_timezone,
)

ZooKeeperName = Annotated[str, Field(pattern="^[^:/{}]+$")]
LogLevel = Literal["trace", "debug", "information", "notice", "warning", "error", "critical", "fatal", "none"]


class ConfigError(UserError):
    """The configuration cannot be used. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__("BAD_ARGUMENTS", message)


class LoggerConfig(Section):
    """The log of the server."""

    level: LogLevel = "information"
    """The least level that is logged."""
    log: Path | None = None
    """The file; without it the log goes to standard error."""
    formatting: Literal["json", "text"] = "json"
    """JSON lines, or text for people."""


class CredentialsConfig(Section):
    """User and password for the exchange of parts. All replicas of a table have the same."""

    user: str
    """The name."""
    password: Text = ""
    """The password."""


class HeaderConfig(Section):
    """A header of an HTTP answer."""

    name: str
    """Its name."""
    value: Text
    """Its value."""


class UserConfig(Section):
    """A user of the HTTP interface."""

    password: Text = ""
    """The password in plain text; empty: the user needs none."""
    password_sha256_hex: str = ""
    """SHA-256 of the password in hexadecimal, in place of ``password``."""
    readonly: Annotated[int, Field(ge=0, le=2)] = 0
    """The setting of that name, for all the user's sessions: 1 reads and changes no setting, 2 only reads."""
    may_link: bool = False
    """Links of other clusters may register as this user although it is read-only."""
    profile: str = "default"
    """The profile that the user's sessions start with."""


class DistributedDdlConfig(Section):
    """The queue of statements with ON CLUSTER in ZooKeeper."""

    path: str = "/clickhouse/task_queue/ddl"
    """The queue's znode."""
    replicas_path: str = "/clickhouse/task_queue/replicas"
    """The znode under which each server that reads the queue registers."""
    profile: str = "default"
    """The profile whose settings the statements are executed with."""
    task_max_lifetime: Annotated[int, Field(ge=1)] = 7 * 24 * 3600
    """Seconds after which an entry is removed, executed or not."""
    max_tasks_in_queue: Annotated[int, Field(ge=1)] = 1000
    """If the queue is longer, its oldest entries that all their servers have executed are removed."""
    cleanup_delay_period: Annotated[int, Field(ge=1)] = 60
    """Seconds between two cleanups of the queue."""

    @field_validator("path", "replicas_path")
    @classmethod
    def _is_znode_path(cls, value: str) -> str:
        value = value.rstrip("/")
        try:
            check_znode_path("the path", value)
        except UserError as error:
            raise ValueError(error.message.partition(", got")[0]) from None
        return value


class Config(GraphiteSections, ClusterSections, LinkKeys, BackgroundCheckKeys, Section):
    """The keys of the file."""

    path: Path
    """The directory of the server: definitions, parts, its UUID. Relative to the file."""
    tmp_path: Path | None = None
    """The directory for data that queries spill to disk; by default ``<path>/tmp``. Every start empties it."""
    user_files_path: Path | None = None
    """Directory of the files that statements, exports and loads may use; by default ``<path>/user_files``."""
    logger: LoggerConfig = LoggerConfig()
    """The log."""
    listen_host: str = "127.0.0.1"
    """The address that the HTTP port and the port for parts listen on; ``0.0.0.0``: all."""
    http_port: Port | None = 8123
    """The port of the HTTP interface; 0: any free one."""
    interserver_http_port: Port | None = 9009
    """The port from which other replicas fetch parts; 0: any free one."""
    interserver_http_host: str = ""
    """The host name that other replicas reach this server by; by default ``listen_host``, or the machine's name where
    that is all addresses."""
    interserver_http_credentials: CredentialsConfig | None = None
    """The user and password that other replicas must send to fetch parts; by default none."""
    zookeeper: ZooKeeperConfig | None = None
    """The ZooKeeper of replicated tables. Without it, and without ``embedded_zookeeper``, there are none."""
    auxiliary_zookeepers: dict[ZooKeeperName, ZooKeeperConfig] = Field(default_factory=dict)
    """Further ensembles by name, for tables whose engine arguments say ``'name:/path'``."""
    embedded_zookeeper: EmbeddedZooKeeperConfig | None = None
    """A ZooKeeper that the server starts beside itself."""
    macros: dict[str, Text] = Field(default_factory=dict)
    """The values of ``{name}`` in the path and the replica name of a replicated table."""
    users: dict[str, UserConfig] = Field(default_factory=lambda: {"default": UserConfig()})
    """The users of the HTTP interface, by name."""
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings by profile. A session starts with those of its user's profile, or of ``default``."""
    merge_tree: dict[str, Any] = Field(default_factory=dict)
    """Settings of tables that do not set them themselves."""
    background_pool_size: Annotated[int, Field(ge=1)] = 4
    """Most merges and mutations that run at the same time, over all tables."""
    background_fetches_pool_size: Annotated[int, Field(ge=1)] = 16
    """Most parts fetched from other replicas at the same time, over all tables."""
    max_replicated_fetches_network_bandwidth_for_server: Annotated[int, Field(ge=0)] = 0
    """Bytes a second for fetching parts from other replicas; 0: unlimited."""
    max_replicated_sends_network_bandwidth_for_server: Annotated[int, Field(ge=0)] = 0
    """Bytes a second for sending parts to other replicas; 0: unlimited."""
    max_concurrent_queries: Annotated[int, Field(ge=1)] = 100
    """Most queries that run at the same time, over all users; further ones are refused (202)."""
    max_server_memory_usage: Annotated[int, Field(ge=0)] = 0
    """Bytes of memory the server may use; 0: only ``max_server_memory_usage_to_ram_ratio`` limits it."""
    max_server_memory_usage_to_ram_ratio: Annotated[float, Field(gt=0)] = 0.7
    """The share of the machine's or the container's memory that the server may use."""
    max_temporary_data_on_disk_size: Annotated[int, Field(ge=0)] = 0
    """Bytes that queries may spill to disk when memory is short; 0: half of the free disk space."""
    workers: Annotated[int, Field(ge=0, le=256)] | Literal["auto"] = "auto"
    """Processes that run queries, beside the one that owns the tables; ``auto``: one per processor; 0: a single
    process does everything."""
    worker_stuck_seconds: Annotated[int, Field(ge=1)] = 30
    """Seconds without progress of its threads after which a worker is killed and replaced."""
    query_stop_grace_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 3.0
    """Seconds that a query gets to end after a KILL or after passing its time or memory limit. Then its worker is
    replaced, and the worker's other queries are repeated or get 210 (NETWORK_ERROR)."""
    max_connections: Annotated[int, Field(ge=1)] = 4096
    """Most open HTTP connections; fewer where the process may open fewer files."""
    pages_need_user: bool = False
    """``/metrics`` and ``/replicas_status?verbose=1`` require user and password, as queries do."""
    http_options_response: list[HeaderConfig] = Field(default_factory=list)
    """Headers of responses to OPTIONS, which a browser sends before a page of another origin may send queries."""
    keep_alive_timeout: Annotated[int, Field(ge=0)] = 30
    """Seconds an idle HTTP connection stays open."""
    shutdown_wait_unfinished: Annotated[int, Field(ge=0)] = 5
    """Seconds that running queries get to finish at a graceful stop."""
    max_replica_delay_for_distributed_queries: Annotated[int, Field(ge=0)] = 300
    """Seconds of replication lag from which ``/replicas_status`` answers 503."""
    timezone: str = "UTC"
    """The time zone of types and functions that name none."""
    display_name: str = Field(default_factory=socket.gethostname)
    """The name that clients show; by default the machine's."""
    default_replica_path: str = "/clickhouse/tables/{database}/{table}/{shard}"
    """The path in ZooKeeper of a replicated table whose engine has no arguments."""
    default_replica_name: str = "{replica}"
    """The replica name of such a table."""
    distributed_ddl: DistributedDdlConfig = DistributedDdlConfig()
    """The queue of statements with ON CLUSTER."""

    _file: Path | None = PrivateAttr(default=None)

    @field_validator("merge_tree")
    @classmethod
    def _merge_tree_settings(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            return {name: parse_table_setting(name, setting) for name, setting in value.items()}
        except UserError as error:
            raise ValueError(error.message) from None

    @field_validator("profiles")
    @classmethod
    def _profiles(cls, value: dict[str, dict[str, object]]) -> dict[str, dict[str, SettingValue]]:
        try:
            return {name: parse_given_settings(settings) for name, settings in value.items()}
        except UserError as error:
            raise ValueError(error.message) from None

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        if not is_timezone(value):
            raise ValueError(f"there is no time zone {value!r}")
        return value

    def profile(self, name: str) -> dict[str, SettingValue]:
        """Returns the settings of a profile. Raises 180 (THERE_IS_NO_PROFILE)."""
        if name not in self.profiles and name != "default":
            raise UserError(
                "THERE_IS_NO_PROFILE",
                f"There is no profile {name!r} in the configuration{suggest_names(name, self.profiles)}",
            )
        return dict(self.profiles.get(name, {}))

    @property
    def file(self) -> Path | None:
        """The file that the configuration was read from, if any."""
        return self._file

    @property
    def default_max_memory_usage(self) -> int:
        """A query's default memory limit: a fourteenth of the server's, but at least 256 MiB; 0 is unlimited.

        Without a server (``pando local``) there is no limit.
        """
        if self.http_port is None:
            return 0
        return min(max(self.memory_limit_bytes // 14, 256 << 20), self.memory_limit_bytes)

    @property
    def default_settings(self) -> dict[str, SettingValue]:
        """Session defaults of this server that differ from the settings' own defaults."""
        return {"max_memory_usage": self.default_max_memory_usage}

    @property
    def user_files(self) -> UserFiles:
        """The files that statements may read and write."""
        if self.http_port is None and self.user_files_path is None:  # pando local may use its user's files
            return UserFiles(Path.cwd(), is_confined=False)
        return UserFiles(self.user_files_path or self.path / "user_files")

    @property
    def temporary_path(self) -> Path:
        """The directory of temporary files; a start deletes its content."""
        return (self.tmp_path or self.path / "tmp").absolute()

    @property
    def worker_count(self) -> int:
        """The number of worker processes; 0 without HTTP, where no client could reach them."""
        if self.http_port is None:
            return 0
        return len(os.sched_getaffinity(0)) if self.workers == "auto" else self.workers

    @property
    def memory_limit_bytes(self) -> int:
        """The server's memory limit: the smaller of the two limits, as in ClickHouse."""
        of_machine = int(get_available_bytes() * self.max_server_memory_usage_to_ram_ratio)
        return min(self.max_server_memory_usage or of_machine, of_machine)

    @property
    def interserver_host(self) -> str:
        """The host name under which other replicas reach this server."""
        if self.interserver_http_host:
            return self.interserver_http_host
        return self.listen_host if self.listen_host not in ("0.0.0.0", "::", "*") else socket.getfqdn()

    @classmethod
    def load(cls, file: str | Path) -> Config:
        """Reads and checks a file; relative paths in it count from its directory. Raises :class:`ConfigError`."""
        import yaml  # slow to import, and only needed for a file

        file = Path(file)
        try:
            values = yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"Cannot read the configuration {file}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"Cannot read the configuration {file}: not UTF-8 at byte {error.start}") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"Cannot read the configuration {file}: {_describe_yaml_problem(error)}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"The configuration {file} must be a mapping of keys to values, such as 'path: data'")
        try:
            config = cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"{_describe_first_problem(error)} (in {file})") from None
        path = (file.parent / config.path).absolute()
        user_files = file.parent / config.user_files_path if config.user_files_path else None
        linked = {name: cluster.relative_to(file.parent) for name, cluster in config.linked_clusters.items()}
        loaded = config.model_copy(update={"path": path, "user_files_path": user_files, "linked_clusters": linked})
        loaded._file = file.absolute()
        return loaded

    @classmethod
    def local(cls, path: str | Path) -> Config:
        """Returns the configuration of ``pando local``: no network, no ZooKeeper."""
        return cls(path=Path(path), http_port=None, interserver_http_port=None)


def _describe_yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}" if mark else problem


def _describe_first_problem(error: ValidationError) -> str:
    """Describes the first problem in one line: which key, what is wrong, with which value."""
    problem = error.errors(include_url=False)[0]
    key = ".".join(str(item) for item in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"Unknown key {key!r} in the configuration{suggest_names(key, _list_known_keys(problem['loc']))}"
    if problem["type"] == "missing":
        return f"The key {key!r} is missing from the configuration"
    text = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    shown = f", got {value!r}" if isinstance(value, str | int | float | bool) and repr(value) not in text else ""
    return f"Bad value of {key!r} in the configuration: {text}{shown}"


def _list_known_keys(location: tuple[int | str, ...]) -> list[str]:
    """Returns the keys allowed in the section of the unknown key, with the section's prefix."""
    sections: dict[str, type[BaseModel]] = {
        "": Config,
        "logger": LoggerConfig,
        "zookeeper": ZooKeeperConfig,
        "embedded_zookeeper": EmbeddedZooKeeperConfig,
        "interserver_http_credentials": CredentialsConfig,
        "distributed_ddl": DistributedDdlConfig,
    }
    prefix = ".".join(str(item) for item in location[:-1])
    section = sections.get(prefix)
    return [f"{prefix}.{name}" if prefix else name for name in section.model_fields] if section else []
