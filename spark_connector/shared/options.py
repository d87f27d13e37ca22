"""Parses and checks the options of the format ``pando``.

Unknown options are refused with the nearest known names.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from parts.common.errors import UserError

_SETTING = "setting."
_COPY = "option."
"""Spark's catalog keeps options of ``CREATE TABLE … USING pando`` with this prefix, and passes them on with it."""
_PASSWORDS = ("password", "password_env", "password_file")
_LOGIN = ("user", *_PASSWORDS)
_NO_OPTIONS: Mapping[str, str] = {}
_IGNORED = frozenset(
    {"serialization.format", "provider", "owner", "location", "is_managed_location", "external", "checkpointlocation"}
)
"""Options that Spark's catalog and its streams add."""


@dataclass(frozen=True)
class Options:
    """The options of one read or write. Times are in seconds."""

    urls: tuple[str, ...]
    table: str = ""
    query: str = ""
    """A SELECT to read instead of a table."""
    task_query: str = ""
    """A SELECT over the rows of each task (the table ``slot``), whose result is read instead."""
    database: str = "default"
    user: str = ""
    password: str = field(default="", repr=False)
    connect_timeout: float = 5.0
    timeout: float = 660.0
    stall_timeout: float = 60.0
    """If a server sends nothing of a scan for this long, another is tried."""
    retries: int = 6
    # reading
    columns: tuple[str, ...] = ()
    filter: str = ""
    scan_name: str = ""
    """The scan's name. Scans of one name read one state of a table in each query of Spark."""
    partitions: int | None = None
    max_rows_per_task: int | None = None
    max_bytes_per_task: int | None = None
    lease_seconds: float = 300.0
    select_sequential_consistency: bool = False
    optimize_skip_unused_shards: bool = False
    """Whether every row of a Distributed table is in the shard that its sharding key tells."""
    max_replica_delay_seconds: float = 300.0
    compression: str = "lz4"
    nanoseconds: str = "error"
    """How a DateTime64 that is finer than Spark's timestamps is read."""
    # reading a stream
    starting_offsets: str = "earliest"
    """``earliest``, ``latest`` or JSON: for each partition the last block that is not read, or an offset."""
    max_rows_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    # writing
    batch_rows: int = 500_000
    batch_bytes: int = 256 << 20
    token: str = ""
    txn_app_id: str = ""
    txn_version: int = 0
    overwrite_mode: str = "table"
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The table as ``database.table``."""
        return f"{self.database}.{self.table}"

    @property
    def application(self) -> tuple[str, int]:
        """The name under which a job commits, and its version; ``("", 0)`` if it may run any number of times."""
        return (f"token {self.token}", 0) if self.token else (self.txn_app_id, self.txn_version)

    @property
    def quoted_name(self) -> str:
        """The table's name in SQL."""
        return f"{quote_identifier(self.database)}.{quote_identifier(self.table)}"


def quote_identifier(name: str) -> str:
    """Returns an identifier in SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def escape_string(text: str) -> str:
    """Returns a text as it stands between the quotes of an SQL string."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def are_from_catalog(given: Mapping[str, str]) -> bool:
    """Returns whether these options come from ``CREATE TABLE … USING pando``."""
    return any(name.lower().startswith(_COPY) for name in given)


def refuse_secrets(given: Mapping[str, str]) -> None:
    """Refuses a password among the options of a catalog table. Raises 36.

    Spark stores these options: in its catalog, and with the columns in files and other tables.
    """
    if any(name.lower().removeprefix(_COPY) == "password" for name in given):
        raise _bad_option_error(
            "a catalog table must not have the option 'password': Spark keeps it readable, in its catalog and in the "
            "metadata of columns. Name an environment variable of the driver in the option 'password_env' instead, or "
            "a file there in 'password_file', or load a frame with spark.read.format('pando').option('password', …) "
            "and make a temporary view of it"
        )


def parse_options(given: Mapping[str, str], defaults: Mapping[str, str] = _NO_OPTIONS) -> Options:
    """Parses the options. Raises ``UserError`` 36 naming the option."""
    lowered = {name.lower(): value for name, value in given.items()}
    copies = {name.removeprefix(_COPY): value for name, value in lowered.items() if name.startswith(_COPY)}
    plain = {name: value for name, value in lowered.items() if not name.startswith(_COPY)}
    values = {name: value for name, value in {**copies, **plain}.items() if name not in _IGNORED}
    is_login_given = any(name in values for name in _LOGIN)
    values = {**{k: v for k, v in defaults.items() if not (is_login_given and k in _LOGIN)}, **values}
    settings = {name.removeprefix(_SETTING): values.pop(name) for name in list(values) if name.startswith(_SETTING)}
    if "insert_quorum" in values:
        settings["insert_quorum"] = values.pop("insert_quorum")
    for name in values:
        if name not in _NAMES:
            raise _bad_option_error(f"unknown option {name!r}{_suggest_names(name)}")
    query, task_query = (values.get(name, "").strip().rstrip(";").rstrip() for name in ("query", "task_query"))
    _check_together(values, settings, query)
    database, table = _parse_table(values.get("table", ""), values.get("database", ""))
    return Options(
        urls=_parse_urls(values["url"]),
        table=table,
        query=query,
        task_query=task_query,
        database=database,
        user=values.get("user", ""),
        password=_read_password(values),
        connect_timeout=_parse_number(values, "connect_timeout", 5.0),
        timeout=_parse_number(values, "timeout", 660.0),
        stall_timeout=_parse_number(values, "stall_timeout", 60.0),
        retries=_parse_count(values, "retries", 6, least=0),
        columns=_split_names(values.get("columns", "")),
        filter=values.get("filter", ""),
        scan_name=values.get("scan_name", ""),
        partitions=_parse_count(values, "partitions", 0) or None,
        max_rows_per_task=_parse_count(values, "max_rows_per_task", 0) or None,
        max_bytes_per_task=_parse_count(values, "max_bytes_per_task", 0) or None,
        lease_seconds=_parse_number(values, "lease_seconds", 300.0),
        select_sequential_consistency=_parse_flag(values, "select_sequential_consistency"),
        optimize_skip_unused_shards=_parse_flag(values, "optimize_skip_unused_shards"),
        max_replica_delay_seconds=_parse_number(values, "max_replica_delay_seconds", 300.0),
        compression=_parse_choice(values, "compression", "lz4", ("lz4", "zstd", "none")),
        nanoseconds=_parse_choice(values, "nanoseconds", "error", ("error", "truncate", "long", "string")),
        starting_offsets=_parse_offsets(values),
        max_rows_per_trigger=_parse_count(values, "maxrowspertrigger", 0) or None,
        fail_on_data_loss=_parse_flag(values, "failondataloss", default="true"),
        batch_rows=_parse_count(values, "batch_rows", 500_000),
        batch_bytes=_parse_count(values, "batch_bytes", 256 << 20),
        token=values.get("token", ""),
        txn_app_id=values.get("txnappid", ""),
        txn_version=_parse_count(values, "txnversion", 0, least=0),
        overwrite_mode=_parse_overwrite_mode(values),
        settings=settings,
    )


def _check_together(values: Mapping[str, str], settings: Mapping[str, str], query: str) -> None:
    """Checks options that depend on each other.

    Raises 36 for an option that is missing or contradicts others, 48 for one that is not offered.
    """
    for name in ("url",) if query else ("url", "table"):
        if not values.get(name):
            raise _bad_option_error(f"the option {name!r} is missing; {_EXAMPLE}{'' if values else _LOST}")
    for name in _OF_TABLES if query else ():
        if values.get(name):
            raise _bad_option_error(f"the option {name!r} does nothing beside 'query': say it in the SELECT")
    for name in settings:
        if name.startswith(("insert_deduplication_token", "insert_transaction")):
            raise _bad_option_error(f"setting.{name} is made by the connector; give the option 'token' instead")
    if _parse_flag(values, "mergeschema"):
        raise UserError(
            "NOT_IMPLEMENTED",
            "Format pando: the option 'mergeSchema' is not offered: a table's columns cannot be changed. Write the "
            "columns that it has (select), or make a table with all of them (spark_connector.create_table)",
        )
    if _parse_flag(values, "push_filters"):
        raise UserError(
            "NOT_IMPLEMENTED",
            "Format pando: the option 'push_filters' is not offered: Spark 4.3 keeps the filters of a frame's first "
            "query for its later ones, and counts were wrong. Give a ClickHouse condition in the option 'filter'",
        )
    if ("txnappid" in values) != ("txnversion" in values) or (values.get("token") and "txnappid" in values):
        raise _bad_option_error("give 'txnAppId' together with 'txnVersion', or 'token'")


def _parse_overwrite_mode(values: Mapping[str, str]) -> str:
    """Returns the overwrite mode, under Pando's name for it or Spark's."""
    mode = _parse_choice(values, "overwritemode", "", ("", "table", "partitions"))
    spark_mode = _parse_choice(values, "partitionoverwritemode", "", ("", "static", "dynamic"))
    if mode and spark_mode:
        raise _bad_option_error("give 'overwriteMode' or 'partitionOverwriteMode', not both")
    return mode or ("partitions" if spark_mode == "dynamic" else "table")


def _read_password(values: Mapping[str, str]) -> str:
    """Returns the password, read in the driver. Raises 36 for a reference to nothing."""
    given = [name for name in _PASSWORDS if values.get(name)]
    if len(given) > 1:
        raise _bad_option_error(f"give {' or '.join(repr(name) for name in given)}, not both")
    if values.get("password_env"):
        name = values["password_env"]
        if name not in os.environ:
            raise _bad_option_error(
                f"the environment variable {name!r}, named by the option 'password_env', is not set in the driver"
            )
        return os.environ[name]
    if values.get("password_file"):
        try:
            return Path(values["password_file"]).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise _bad_option_error(
                f"the file of the option 'password_file' cannot be read in the driver: {error}"
            ) from None
    return values.get("password", "")


def _split_names(text: str) -> tuple[str, ...]:
    """Splits names at commas.

    A name in backquotes may have commas and blanks; a backquote is doubled there.
    """
    items = (item.strip() for item in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text))
    return tuple(item[1:-1].replace("``", "`") if item[:1] == "`" else item for item in items if item)


def format_column_list(names: Iterable[str]) -> str:
    """Returns the value of the option ``columns`` for these names."""
    return ",".join("`" + name.replace("`", "``") + "`" for name in names)


def _parse_table(text: str, database: str) -> tuple[str, str]:
    """Splits ``hits`` or ``db.hits``; with the option ``database`` a dot belongs to the table's name."""
    if database:
        return database, text
    before, dot, after = text.partition(".")
    return (before, after) if dot else ("default", text)


_EXAMPLE = "for example .option('url', 'http://127.0.0.1:8123').option('table', 'hits')"
_LOST = (
    ". If this is a table of Spark's catalog that was created with a list of columns, or AS SELECT: Spark does not "
    "hand over its options then; create it with USING pando OPTIONS (…) alone, and insert afterwards"
)
_OF_TABLES = ("table", "task_query", "columns", "filter", "partitions", "max_rows_per_task", "max_bytes_per_task")
_NAMES = frozenset(
    {
        "url", "table", "query", "task_query", "database", "user", "password", "password_env", "password_file",
        "connect_timeout", "timeout", "stall_timeout", "retries", "mergeschema", "nanoseconds", "columns", "filter",
        "scan_name", "push_filters", "partitions", "max_rows_per_task", "max_bytes_per_task", "lease_seconds",
        "select_sequential_consistency", "optimize_skip_unused_shards", "max_replica_delay_seconds", "compression",
        "batch_rows", "batch_bytes", "token", "insert_quorum",
        "txnappid", "txnversion", "overwritemode", "partitionoverwritemode",
        "startingoffsets", "maxrowspertrigger", "failondataloss",
    }
)  # fmt: skip


def _bad_option_error(message: str) -> UserError:
    return UserError("BAD_ARGUMENTS", f"Format pando: {message}")


def _suggest_names(name: str) -> str:
    near = difflib.get_close_matches(name, sorted(_NAMES), n=3, cutoff=0.6)
    if near:
        return f". Maybe you meant {' or '.join(repr(other) for other in near)}"
    return f"; a setting of the server is given as 'setting.<name>'. Options: {', '.join(sorted(_NAMES))}"


def _parse_urls(text: str) -> tuple[str, ...]:
    urls = []
    for item in text.split(","):
        url = item.strip().rstrip("/")
        parsed = urlsplit(url)
        try:
            is_fine = parsed.scheme in ("http", "https") and parsed.hostname and not parsed.path and not parsed.query
            is_fine = is_fine and (parsed.port is None or parsed.port > 0)
        except ValueError:
            is_fine = False
        if not is_fine or parsed.username:
            raise _bad_option_error(
                f"the option 'url' has {item.strip()!r}: expected http://host:port, several separated by commas; "
                "user and password are options of their own"
            )
        urls.append(url)
    return tuple(dict.fromkeys(urls))


def _parse_number(values: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(values.get(name) or default)
    except ValueError:
        raise _bad_option_error(f"the option {name!r} must be a number of seconds, got {values[name]!r}") from None
    if not 0 < number < 1e9:
        raise _bad_option_error(f"the option {name!r} must be more than 0, got {values[name]!r}")
    return number


def _parse_count(values: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    text = values.get(name)
    if not text:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise _bad_option_error(f"the option {name!r} must be a whole number of at least {least}, got {text!r}")
    return int(text)


def is_switched_off(value: str) -> bool:
    """Returns whether the value of a boolean setting is false."""
    return value.strip().lower() in ("0", "false")


def _parse_flag(values: Mapping[str, str], name: str, default: str = "0") -> bool:
    text = values.get(name, default).strip().lower()
    if text not in ("0", "1", "true", "false"):
        raise _bad_option_error(f"the option {name!r} must be true or false, got {values[name]!r}")
    return text in ("1", "true")


def _parse_offsets(values: Mapping[str, str]) -> str:
    text = values.get("startingoffsets", "earliest").strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    blocks = given.get("blocks", given) if isinstance(given, dict) else None
    if not isinstance(blocks, dict) or not all(type(number) is int and number >= -1 for number in blocks.values()):
        raise _bad_option_error(
            "the option 'startingOffsets' must be earliest, latest, or JSON that gives for partitions the last block "
            f'that is not read, like {{"202001": 17}}, got {text!r}'
        )
    return text


def _parse_choice(values: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    text = values.get(name, default).strip().lower()
    if text not in choices:
        raise _bad_option_error(f"the option {name!r} must be one of {', '.join(choices)}, got {values[name]!r}")
    return text
