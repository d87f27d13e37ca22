"""Which calls of every function are compared.

``calls.txt`` and ``aggregates.txt`` hold blocks: names of functions, then templates, indented. A template names columns
of ``rows`` or kinds of them (``$int``), which stand for each column of the kind in turn; ``@`` is the function's name
and ``#`` the type in it (``toInt8OrZero``). A function in no template must be in ``LEFT_OUT`` with the reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_SCALARS = (
    "u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 sf64 b d9 d18 d38 sd18 d d32 dt dtb dt3 dt6 dt9 s sw fs lc uid ip4 ip6 "
    "e8 e16 nu8 ni64 nf64 nd18 ns nd ndt lcn"
)
KINDS: dict[str, str] = {
    "int": "u8 u16 u32 u64 i8 i16 i32 i64",
    "num": "u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 b d9 d18 d38",
    "real": "f32 f64 sf32 sf64 d9 d18 d38 sd9 sd18 nf64 nd18",
    "tame": "su8 si8 si32 su64 si64 sf32 sf64 sd9 sd18",
    "nullable": "nu8 ni64 nf64 nd18",
    "nz": "su8 si64 7 -3 toInt8(-7) toUInt32(10) toInt16(300)",
    "txt": "s sw ascii fs lc ns lcn",
    "anytext": "s numbers digits dates instants json url uuids ips fs",
    "date": "d d32 sd sd32 nd",
    "clock": "dt dtb dt3 dt6 dt9 sdt sdtb sdt3 sdt6 ndt",
    "time": "d d32 dt dtb dt3 dt6 dt9 sd sd32 sdt sdtb sdt3 sdt6 nd ndt",
    "tametime": "sd sd32 sdt sdtb sdt3 sdt6 nd",
    "arr": "ai asi au al af at an ant ad adec aa",
    "numarr": "ai asi au al af an adec",
    "scalar": _SCALARS,
    "all": f"{_SCALARS} ai au al af at an ant ad adec aa m t tn",
}

_TYPES = (
    "UInt8", "UInt16", "UInt32", "UInt64", "Int8", "Int16", "Int32", "Int64", "Float32", "Float64", "Bool",
    "Decimal(9, 2)", "Decimal(18, 4)", "Decimal(38, 10)", "Decimal(9, 0)", "String", "FixedString(8)",
    "FixedString(40)", "Date", "Date32", "DateTime", "DateTime('Asia/Tokyo')", "DateTime64(3)",
    "DateTime64(6, 'Asia/Tokyo')", "DateTime64(9)", "UUID", "IPv4", "IPv6", "Enum8('red' = 1, 'a' = 2)",
    "Enum16('x' = 0, 'y' = 1000)", "Nullable(Int32)", "Nullable(String)", "Nullable(Date)", "LowCardinality(String)",
    "Array(Int64)", "Array(String)", "Array(Nullable(Float64))", "Map(String, Int64)", "Tuple(Int64, String)",
    "Tuple(a String, b String)",
)  # fmt: skip
_CAST_SOURCES = f"{KINDS['all']} {KINDS['tame']} sd sdt sdt3 digits tame_instants numbers dates instants uuids ips json"

_REASONS = {
    "another value at every call": "rand rand64 randCanonical generateUUIDv4",
    "the clock": "now now64 today yesterday uptime",
    "of the server and the session": (
        "version currentDatabase hostName FQDN currentUser queryID timezone serverTimezone displayName buildId tcpPort "
        "serverUUID currentRoles revision currentProfiles connectionId getSetting initialQueryID "
        "currentPosition inSyncClusters lastCut"
    ),
    "of blocks of rows": "blockSize rowNumberInBlock",
    "always refused": "untuple",
}
LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def expanded(template: str, kinds: Mapping[str, str] = KINDS) -> list[str]:
    """The template with every combination of the columns of its kinds."""
    named = re.findall(r"\$(\w+)", template)
    first, *pieces = re.split(r"\$\w+", template)
    return [
        first + "".join(column + piece for column, piece in zip(chosen, pieces, strict=True))
        for chosen in itertools.product(*(kinds[kind].split() for kind in named))
    ]


def templates(name: str) -> Iterator[tuple[list[str], list[str]]]:
    """(functions, templates) of the blocks of a file."""
    for block in Path(__file__).with_name(name).read_text().strip("\n").split("\n\n"):
        lines = block.split("\n")
        names = " ".join(line for line in lines if not line.startswith("    ")).split()
        yield names, [line[4:] for line in lines if line.startswith("    ")]


def templated_calls(kinds: Mapping[str, str] = KINDS) -> dict[str, dict[str, None]]:
    """By scalar function the calls of its templates, each once."""
    result: dict[str, dict[str, None]] = {}
    for names, own in templates("calls.txt"):
        for name in names:
            target = name.removeprefix("to").partition("Or")[0]
            for template in own:
                for call in expanded(template.replace("@", name).replace("#", target), kinds):
                    result.setdefault(name, {})[call] = None
    return result


def calls() -> dict[str, list[str]]:
    """The calls of every scalar function that is swept, each once."""
    result = templated_calls()
    for name in ("CAST", "accurateCastOrNull"):
        for type_, source in itertools.product(_TYPES, _CAST_SOURCES.split()):
            text = type_.replace("'", "\\'")
            result.setdefault(name, {})[f"{name}({source}, '{text}')"] = None
    return {name: list(own) for name, own in result.items()}
