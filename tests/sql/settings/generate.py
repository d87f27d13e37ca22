"""Writes ``sql/settings/settings.tsv`` anew from the ClickHouse in chdb: ``python -m tests.sql.settings.generate``.

Names, types, defaults, aliases and tiers are ClickHouse's; the kind is :mod:`tests.sql.settings.kinds`'s. Lines are

- ``session`` or ``merge_tree``, name, type, default, tier, kind, other accepted values (``|`` between them)
- ``alias``, name, the setting it stands for
- ``was``, name of a session setting, the version that changed its default, the default before
- ``enum``, type, its values (``|`` between them), and ``list`` if a value may name several
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chdb.session import Session

from tests.sql.settings.kinds import ACCEPTED, kind_of, table_kind_of

TARGET = Path(__file__).parents[3] / "sql" / "settings" / "settings.tsv"
_PLAIN = (
    "Bool BoolAuto UInt64 NonZeroUInt64 UInt64Auto UInt32 Int64 Int32 Float Double FloatAuto Seconds Milliseconds "
    "MaxThreads String Char URI Timezone Map"
)
_LISTS = ("JoinAlgorithm", "MySQLDataTypesSupport")


def _rows(session: Session, sql: str) -> list[list[str]]:
    text: str = session.query(sql, "TSV").bytes().decode()
    return [line.split("\t") for line in text.splitlines()]


def _values(session: Session, table: str, name: str) -> list[str]:
    """ClickHouse names the values of an enum when it is given another."""
    try:
        if table == "settings":
            session.query(f"SELECT 1 SETTINGS {name} = '?'")
        else:
            session.query(f"CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS {name} = '?'")
    except RuntimeError as error:
        listed = str(error).partition("Must be one of [")[2].partition("]")[0]
        return sorted(re.findall(r"'(.*?)'", listed))
    return []


def _history(session: Session) -> Iterator[str]:
    sql = (
        "SELECT c.name, version, c.previous_value FROM system.settings_changes ARRAY JOIN changes AS c "
        "WHERE type = 'Session' AND c.previous_value != c.new_value AND c.compatibility_mode = 'Apply' "
        "AND c.name IN (SELECT name FROM system.settings WHERE alias_for = '' AND NOT is_obsolete) ORDER BY c.name"
    )
    for name, version, previous in _rows(session, sql):
        if kind_of(name, is_obsolete=False) == "binding":
            yield f"was\t{name}\t{version}\t{previous}"


def lines() -> Iterator[str]:
    session = Session()
    enums: dict[str, list[str]] = {}
    for scope, table in (("session", "settings"), ("merge_tree", "merge_tree_settings")):
        where = "WHERE alias_for = ''" if scope == "session" else ""
        sql = f"SELECT name, type, default, tier, is_obsolete FROM system.{table} {where} ORDER BY name"
        for name, type_, default, tier, is_obsolete in _rows(session, sql):
            rule = kind_of if scope == "session" else table_kind_of
            kind = rule(name, is_obsolete=is_obsolete == "1")
            value = re.sub(r"^auto\(\d+\)$", "auto", default)
            yield "\t".join((scope, name, type_, value, tier, kind, ACCEPTED.get(name, "")))
            if type_ not in _PLAIN.split() and type_ not in enums and is_obsolete == "0":
                enums[type_] = _values(session, table, name)
    for name, target in _rows(session, "SELECT name, alias_for FROM system.settings WHERE alias_for != '' ORDER BY 1"):
        yield f"alias\t{name}\t{target}"
    yield from _history(session)
    for type_, values in sorted(enums.items()):
        yield f"enum\t{type_}\t{'|'.join(values)}\t{'list' if type_ in _LISTS else ''}"
    session.close()


if __name__ == "__main__":
    TARGET.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
