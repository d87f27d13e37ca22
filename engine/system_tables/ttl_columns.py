"""The TTL columns of ``system.parts`` and ``parts_columns``."""

from __future__ import annotations

from engine.queries.context import (
    Row,
)
from parts.read.part_reader import Part
from parts.table.table_description import TableDescription
from parts.table.ttl_rules import RuleKind, RuleTimes

_LISTS = {
    "move": None,
    "recompression": RuleKind.RECOMPRESS,
    "group_by": RuleKind.GROUP_BY,
    "rows_where": RuleKind.ROWS_WHERE,
}
TTL_COLUMNS = "\n".join(
    [
        "delete_ttl_info_min DateTime",
        "delete_ttl_info_max DateTime",
        *(
            f"{name}_ttl_info.{what}"
            for name in _LISTS
            for what in ("expression Array(String)", "min Array(DateTime)", "max Array(DateTime)")
        ),
        "default_compression_codec String",
    ]
)
COLUMN_TTL_COLUMNS = "column_ttl_min Nullable(DateTime)\ncolumn_ttl_max Nullable(DateTime)"
_LAST_TIME = (1 << 32) - 1


def make_ttl_values(description: TableDescription, part: Part) -> Row:
    """Returns the values of :data:`TTL_COLUMNS`.

    Rules that the part has no times for give 0, or are missing in the lists.
    """
    rules, known = description.ttl, part.get_applicable_ttl(description.ttl).rules
    rows = next((known[rule.text] for rule in rules.list_rules(RuleKind.ROWS) if rule.text in known), RuleTimes())
    values: list[object] = [_clamp_time(rows.first), _clamp_time(rows.last)]
    for kind in _LISTS.values():
        found = [rule for rule in (rules.list_rules(kind) if kind is not None else []) if rule.text in known]
        values.append([rule.expression for rule in found])
        values.append([_clamp_time(known[rule.text].first) for rule in found])
        values.append([_clamp_time(known[rule.text].last) for rule in found])
    return (*values, part.ttl.codec or description.settings.default_compression_codec)


def make_column_ttl_values(description: TableDescription, part: Part, column: str) -> Row:
    """Returns the values of :data:`COLUMN_TTL_COLUMNS`."""
    known = part.get_applicable_ttl(description.ttl).rules
    for rule in description.ttl.list_rules(RuleKind.COLUMN):
        if rule.column == column and rule.text in known:
            facts = known[rule.text]
            return (_clamp_time(facts.first), _clamp_time(facts.last))
    return (None, None)


def _clamp_time(seconds: int | None) -> int:
    return min(max(seconds or 0, 0), _LAST_TIME)
