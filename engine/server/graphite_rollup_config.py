"""The sections ``graphite_rollup`` of the configuration, as GraphiteMergeTree's rules.

::

    graphite_rollup:               # and any other key that begins so; ENGINE = GraphiteMergeTree('graphite_rollup')
      path_column_name: Path
      time_column_name: Time
      value_column_name: Value
      version_column_name: Timestamp
      pattern:
        - {regexp: 'click_cost', function: any, retention: [{age: 0, precision: 5}, {age: 86400, precision: 60}]}
      default: {function: max, retention: [{age: 0, precision: 60}, {age: 3600, precision: 300}]}

Source: ClickHouse documentation, "GraphiteMergeTree", of which these are the names.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from parts.merge.modes.graphite import Rollup, Rollups

PREFIX = "graphite_rollup"


def _listed(value: object) -> object:
    """Wraps a single element in a list, as XML configurations allow."""
    return [value] if isinstance(value, dict) else value


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RetentionConfig(_Section):
    """The length of the steps in which rows are kept, from an age on."""

    age: Annotated[int, Field(ge=0)]
    """Seconds."""
    precision: Annotated[int, Field(ge=1)]
    """Seconds of a step."""


class DefaultConfig(_Section):
    """The rule of metrics that no pattern matches."""

    function: Literal["", "any", "anyLast", "avg", "count", "max", "min", "sum"] = ""
    """The aggregate that makes one row of the rows of a step."""
    retention: Annotated[list[RetentionConfig], BeforeValidator(_listed)] = Field(default_factory=list)
    """The steps, by age."""

    @model_validator(mode="after")
    def _has_something(self) -> DefaultConfig:
        if not self.function and not self.retention:
            raise ValueError("at least one of function and retention is needed")
        return self


class PatternConfig(DefaultConfig):
    """The rule of metrics whose path matches."""

    regexp: Annotated[str, Field(min_length=1)]
    """The regular expression that is looked for in the path."""
    rule_type: Literal["all", "plain", "tagged", "tag_list"] = "all"
    """The metrics that it applies to: all, without tags (``plain``), with tags; ``tag_list``: ``regexp`` lists tags."""

    @property
    def searched(self) -> str:
        """The regular expression that is searched for in a path."""
        return convert_tag_list(self.regexp) if self.rule_type == "tag_list" else self.regexp

    @property
    def kind(self) -> str:
        """The paths that the rule applies to: ``all``, ``plain`` or ``tagged``."""
        return "tagged" if self.rule_type == "tag_list" else self.rule_type

    @model_validator(mode="after")
    def _is_regexp(self) -> PatternConfig:
        import pyarrow as pa  # slow to import, and only needed for rules
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.array([""]), self.searched)
        except pa.ArrowInvalid as error:
            raise ValueError(f"the regular expression {self.regexp!r} cannot be used: {error}") from None
        return self


class GraphiteRollupConfig(_Section):
    """The rules of tables whose engine is ``GraphiteMergeTree('<the section's name>')``."""

    path_column_name: str = "Path"
    """The column with the metric's name."""
    time_column_name: str = "Time"
    """The column with the time that was measured."""
    value_column_name: str = "Value"
    """The column with the value."""
    version_column_name: str = "Timestamp"
    """The column with the version: of equal metric and time the last version stays."""
    pattern: Annotated[list[PatternConfig], BeforeValidator(_listed)] = Field(default_factory=list)
    """The rules, of which the first that matches counts."""
    default: DefaultConfig | None = None
    """The rule of all others."""

    def rollup(self, section: str, timezone: str) -> Rollup:
        """Returns the rules in the form that merges use."""
        from parts.merge.modes.graphite import Pattern, Rollup  # only a server needs Arrow

        patterns = [Pattern(p.searched, p.function, _make_steps(p), p.kind) for p in self.pattern]
        if self.default is not None:
            patterns.append(Pattern("", self.default.function, _make_steps(self.default)))
        columns = (self.path_column_name, self.time_column_name, self.value_column_name, self.version_column_name)
        return Rollup(section, *columns, tuple(patterns), timezone)


class GraphiteSections(BaseModel):
    """The part of the configuration that holds the sections ``graphite_rollup``."""

    timezone: str = "UTC"
    graphite_rollup: dict[str, GraphiteRollupConfig] = Field(default_factory=dict)
    """Rules for tables of GraphiteMergeTree, by the section's name, which begins with ``graphite_rollup``."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        sections = {name: value for name, value in values.items() if str(name).startswith(PREFIX)}
        others = {name: value for name, value in values.items() if name not in sections}
        return {**others, PREFIX: sections} if sections else values

    @cached_property
    def rollups(self) -> Rollups:
        """The rules by section name, for tables of GraphiteMergeTree."""
        return {name: section.rollup(name, self.timezone) for name, section in self.graphite_rollup.items()}


def _make_steps(config: DefaultConfig) -> tuple[tuple[int, int], ...]:
    return tuple((step.age, step.precision) for step in config.retention)


def convert_tag_list(text: str) -> str:
    """Converts ``name;tag=value;…`` to a regular expression for ``name?tag=value&…`` with sorted tags.

    The name may be missing, the tags may be in any order, and each item may be a regular expression.
    """
    items = [item for item in re.split(r"\s*;\s*", text.strip()) if item]
    name = items.pop(0) if items and "=" not in items[0] else ""
    if not items:
        return f"^{name}\\?"
    tags = "&(.*&)?".join(sorted(items))
    begin = f"^{name}\\?(.*&)?" if name else "[?&]"
    return f"{begin}{tags}(&.*)?$"
