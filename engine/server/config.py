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
    ValidationError,
    field_validator,
)

from engine.server.background_check_config import BackgroundCheckKeys
from engine.server.config_section import Port, Section, Text
from engine.server.graphite_rollup_config import GraphiteSections
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
    """In plain text; empty: the user needs none."""
    password_sha256_hex: str = ""
    """SHA-256 of the password in hexadecimal, in place of ``password``."""
    readonly: Annotated[int, Field(ge=0, le=2)] = 0
    """The setting of that name, for all the user's sessions: 1 reads and changes no setting, 2 only reads."""
    profile: str = "default"
    """The profile that the user's sessions start with."""


class DistributedDdlConfig(Section):
    """The queue of statements with ON CLUSTER in ZooKeeper."""

    path: str = "/clickhouse/task_queue/ddl"
    """Where the queue lies in ZooKeeper."""
    replicas_path: str = "/clickhouse/task_queue/replicas"
    """Where servers say that they read the queue."""
    profile: str = "default"
    """The profile with the settings that the statements are carried out with."""
    task_max_lifetime: Annotated[int, Field(ge=1)] = 7 * 24 * 3600
    """Seconds after which an entry is removed, carried out or not."""
    max_tasks_in_queue: Annotated[int, Field(ge=1)] = 1000
    """Of more entries the oldest are removed that all their servers have carried out."""
    cleanup_delay_period: Annotated[int, Field(ge=1)] = 60
    """Seconds between two looks for such entries."""

    @field_validator("path", "replicas_path")
    @classmethod
    def _is_znode_path(cls, value: str) -> str:
        value = value.rstrip("/")
        try:
            check_znode_path("the path", value)
        except UserError as error:
            raise ValueError(error.message.partition(", got")[0]) from None
        return value


class Config(GraphiteSections, ClusterSections, BackgroundCheckKeys, Section):
    """The keys of the file."""

    path: Path
    """The directory of the server: definitions, parts, its UUID. Relative to the file."""
    tmp_path: Path | None = None
    """Where queries put what does not fit into memory; by default ``<path>/tmp``. It is emptied at every start."""
    user_files_path: Path | None = None
    """The files that statements, exports and loads may touch; by default ``<path>/user_files``."""
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
    """What replicas must give to fetch parts; without the section nothing."""
    zookeeper: ZooKeeperConfig | None = None
    """The ZooKeeper of replicated tables. Without it, and without ``embedded_zookeeper``, there are none."""
    auxiliary_zookeepers: dict[ZooKeeperName, ZooKeeperConfig] = Field(default_factory=dict)
    """Those of tables whose engine says ``'name:/path'``."""
    embedded_zookeeper: EmbeddedZooKeeperConfig | None = None
    """A ZooKeeper that the server starts beside itself."""
    macros: dict[str, Text] = Field(default_factory=dict)
    """What ``{name}`` stands for in the path and the replica name of a replicated table."""
    users: dict[str, UserConfig] = Field(default_factory=lambda: {"default": UserConfig()})
    """The users of the HTTP interface, by name."""
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings by profile. Sessions start with those of ``default``, or of their user's profile."""
    merge_tree: dict[str, Any] = Field(default_factory=dict)
    """Settings of tables that do not set them themselves."""
    background_pool_size: Annotated[int, Field(ge=1)] = 4
    """Merges and mutations at a time, of all tables."""
    background_fetches_pool_size: Annotated[int, Field(ge=1)] = 16
    """Parts fetched from other replicas at a time, of all tables."""
    max_replicated_fetches_network_bandwidth_for_server: Annotated[int, Field(ge=0)] = 0
    """Bytes a second that parts may take from other replicas; 0: any number."""
    max_replicated_sends_network_bandwidth_for_server: Annotated[int, Field(ge=0)] = 0
    """Bytes a second that parts may take to other replicas; 0: any number."""
    max_concurrent_queries: Annotated[int, Field(ge=1)] = 100
    """Queries at a time, of all users; more are refused (202)."""
    max_server_memory_usage: Annotated[int, Field(ge=0)] = 0
    """Bytes the process may hold; 0: what ``max_server_memory_usage_to_ram_ratio`` says."""
    max_server_memory_usage_to_ram_ratio: Annotated[float, Field(gt=0)] = 0.7
    """The share of the memory of the machine, or of the container, that the server may hold."""
    max_temporary_data_on_disk_size: Annotated[int, Field(ge=0)] = 0
    """Bytes that queries may put on disk for want of memory; 0: half of the disk that is free."""
    workers: Annotated[int, Field(ge=0, le=256)] | Literal["auto"] = "auto"
    """Processes that run queries, beside the one that owns the replica; ``auto``: one a processor. 0: one process does
    everything."""
    worker_stuck_seconds: Annotated[int, Field(ge=1)] = 30
    """A worker that gives its threads no turn for so long is killed and replaced."""
    query_stop_grace_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 3.0
    """So long a query may take to end that is past its ``max_execution_time`` or memory, or was killed; then its worker
    is replaced, and the worker's other queries are repeated or get 210."""
    max_connections: Annotated[int, Field(ge=1)] = 4096
    """HTTP connections at a time; fewer where the process may open fewer files."""
    pages_need_user: bool = False
    """``/metrics`` and ``/replicas_status?verbose=1`` ask for a user and a password, as queries do."""
    http_options_response: list[HeaderConfig] = Field(default_factory=list)
    """Headers of answers to OPTIONS, which browsers ask before they let a page of another origin send queries."""
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
        """The settings of a profile. Raises 180 (THERE_IS_NO_PROFILE)."""
        if name not in self.profiles and name != "default":
            raise UserError(
                "THERE_IS_NO_PROFILE",
                f"There is no profile {name!r} in the configuration{suggest_names(name, self.profiles)}",
            )
        return dict(self.profiles.get(name, {}))

    @property
    def default_max_memory_usage(self) -> int:
        """A query's limit where nobody sets one: a fourteenth of the server's, but at least 256 MiB.

        Without a server (``pando local``) a query may use all.
        """
        if self.http_port is None:
            return 0
        return min(max(self.memory_limit_bytes // 14, 256 << 20), self.memory_limit_bytes)

    @property
    def default_settings(self) -> dict[str, SettingValue]:
        """Settings of a session that nobody gives, where they are not what the settings say themselves."""
        return {"max_memory_usage": self.default_max_memory_usage}

    @property
    def user_files(self) -> UserFiles:
        if self.http_port is None and self.user_files_path is None:  # pando local may touch what its user may
            return UserFiles(Path.cwd(), is_confined=False)
        return UserFiles(self.user_files_path or self.path / "user_files")

    @property
    def temporary_path(self) -> Path:
        """Nothing in it is kept over a start."""
        return (self.tmp_path or self.path / "tmp").absolute()

    @property
    def worker_count(self) -> int:
        """None without HTTP: nobody could ask them."""
        if self.http_port is None:
            return 0
        return len(os.sched_getaffinity(0)) if self.workers == "auto" else self.workers

    @property
    def memory_limit_bytes(self) -> int:
        """The smaller of the two limits, as in ClickHouse."""
        of_machine = int(get_available_bytes() * self.max_server_memory_usage_to_ram_ratio)
        return min(self.max_server_memory_usage or of_machine, of_machine)

    @property
    def interserver_host(self) -> str:
        """The host name other replicas reach this server under."""
        if self.interserver_http_host:
            return self.interserver_http_host
        return self.listen_host if self.listen_host not in ("0.0.0.0", "::", "*") else socket.getfqdn()

    @classmethod
    def load(cls, file: str | Path) -> Config:
        """Raises :class:`ConfigError`."""
        import yaml  # only who reads a file needs it

        file = Path(file)
        try:
            values = yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"Cannot read the configuration {file}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"Cannot read the configuration {file}: not UTF-8 at byte {error.start}") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"Cannot read the configuration {file}: {_yaml_problem(error)}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"The configuration {file} must be a mapping of keys to values, such as 'path: data'")
        try:
            config = cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"{_first_problem(error)} (in {file})") from None
        path = (file.parent / config.path).absolute()
        user_files = file.parent / config.user_files_path if config.user_files_path else None
        return config.model_copy(update={"path": path, "user_files_path": user_files})

    @classmethod
    def local(cls, path: str | Path) -> Config:
        """For ``pando local``: no network, no ZooKeeper."""
        return cls(path=Path(path), http_port=None, interserver_http_port=None)


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}" if mark else problem


def _first_problem(error: ValidationError) -> str:
    """One line for the first of the problems: which key, what is wrong, with which value."""
    problem = error.errors(include_url=False)[0]
    key = ".".join(str(item) for item in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"Unknown key {key!r} in the configuration{suggest_names(key, _known_keys(problem['loc']))}"
    if problem["type"] == "missing":
        return f"The key {key!r} is missing from the configuration"
    text = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    shown = f", got {value!r}" if isinstance(value, str | int | float | bool) and repr(value) not in text else ""
    return f"Bad value of {key!r} in the configuration: {text}{shown}"


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand where the unknown one does, with the same prefix."""
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
