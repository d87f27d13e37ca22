"""System tables of built-in objects, such as functions, formats, engines and types.

They are ``system.functions``, ``table_functions``, ``aggregate_function_combinators``, ``keywords``, ``formats``,
``data_type_families``, ``table_engines``, ``time_zones``, ``collations`` and ``build_options``.
"""

from __future__ import annotations

import platform
import zoneinfo
from collections.abc import Iterator
from dataclasses import astuple
from importlib.metadata import version

from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
)
from parts.types import list_type_families
from sql.aggregates.combinators import COMBINATORS
from sql.aggregates.window_names import WINDOW_FUNCTIONS
from sql.compile.from_clause.table_functions import table_function_names
from sql.definitions.engines.registry import TABLE_ENGINES
from sql.formats.registry import FORMAT_ALIASES, FORMATS
from sql.functions.known_functions import known_functions
from sql.functions.registry import (
    list_functions,
)
from sql.grammar.keywords import KEYWORDS


def _functions(_: Server) -> Iterator[Row]:
    aggregates = {*WINDOW_FUNCTIONS, *(name for name, is_aggregate in list_functions() if is_aggregate)}
    for name, known in known_functions().items():
        yield (
            name, int(name in aggregates), int(known.any_case), known.alias_to, "", 0, "", known.syntax,
            known.categories,
        )  # fmt: skip


def _formats(_: Server) -> Iterator[Row]:
    for name, target in sorted({**{name: name for name in FORMATS}, **FORMAT_ALIASES}.items()):
        entry = FORMATS[target]
        is_for_terminals = target.startswith(("Pretty", "Vertical"))
        yield (
            name,
            int(entry.reader is not None),
            int(entry.writer is not None),
            int(is_for_terminals),
            entry.content_type,
        )


def _engines(_: Server) -> Iterator[Row]:
    for name, engine in TABLE_ENGINES.items():
        yield (name, *(int(has) for has in astuple(engine.features)))


def _build_options(_: Server) -> Iterator[Row]:
    yield ("VERSION_FULL", f"Pando {version('pando')}")
    yield ("VERSION_DESCRIBE", version("pando"))
    yield ("SYSTEM", platform.system())
    yield ("SYSTEM_PROCESSOR", platform.machine())


TABLES = (
    define_server_table(
        "functions",
        """
        name String
        is_aggregate UInt8
        case_insensitive UInt8
        alias_to String
        create_query String
        origin Enum8('System' = 0, 'SQLUserDefined' = 1, 'ExecutableUserDefined' = 2)
        description String
        syntax String
        categories String
        """,
        _functions,
    ),
    define_server_table(
        "formats",
        """
        name String
        is_input UInt8
        is_output UInt8
        is_tty_friendly UInt8
        content_type String
        """,
        _formats,
    ),
    define_server_table(
        "data_type_families",
        """
        name String
        case_insensitive UInt8
        alias_to String
        """,
        lambda _: [(name, int(alias != ""), alias) for name, alias in list_type_families()],
    ),
    define_server_table(
        "table_engines",
        """
        name String
        supports_settings UInt8
        supports_skipping_indices UInt8
        supports_projections UInt8
        supports_sort_order UInt8
        supports_ttl UInt8
        supports_replication UInt8
        supports_deduplication UInt8
        supports_parallel_insert UInt8
        """,
        _engines,
    ),
    define_server_table(
        "time_zones", "time_zone String", lambda _: [(name,) for name in sorted(zoneinfo.available_timezones())]
    ),
    define_server_table(
        "table_functions",
        "name String\ndescription String\nallow_readonly UInt8",
        lambda _: [(name, "", int(name != "file")) for name in table_function_names()],
    ),
    define_server_table(
        "aggregate_function_combinators",
        "name String\nis_internal UInt8",
        lambda _: [(name, 0) for name in sorted(COMBINATORS)],
    ),
    define_server_table("keywords", "keyword String", lambda _: [(word,) for word in sorted(KEYWORDS)]),
    define_server_table("collations", "name String\nlanguage Nullable(String)", lambda _: []),
    define_server_table("build_options", "name String\nvalue String", _build_options),
)
