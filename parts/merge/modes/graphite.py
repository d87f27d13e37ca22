"""GraphiteMergeTree: rows of a metric are rolled up to one for each time step, longer for older rows.

Source: ClickHouse documentation, "GraphiteMergeTree".

A section ``graphite_rollup`` of the server's configuration, a :class:`Rollup`, names the columns. Its path patterns
select the function and the length of the steps. Of rows of one path and time that of the greatest version counts, the
last of equal ones. Rows of one path whose times are in one step become one. Its time is the beginning of the step, its
value the function of theirs, its version that of the last time, and everything else as in the first row. A path without
a rule keeps its times.

Ages are measured from a given time (:meth:`Graphite.at`), so that all replicas compute the same rows. Rows of one step
have several keys: the merge yields the sorted rows, and they are reduced as a stream (:meth:`Graphite.across`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.dictionary_strings import concat_blocks
from parts.blocks.sort_order import encode_keys
from parts.common.errors import UserError
from parts.merge.engine_columns import can_be_version, find_stored_column
from parts.merge.row_aggregates import aggregate_groups, sum_floats
from parts.table.merge_mode import ORDINARY, KeyColumns, MergeMode, SortedRows
from parts.table.table_description import TableSchema
from parts.types import DataType, DateTimeType, FloatType, IntegerType, StringType, strip_low_cardinality
from parts.write.block_preparation import take_rows

FUNCTIONS = ("any", "anyLast", "avg", "count", "max", "min", "sum")
_HOUR_SECONDS = 3600
_NO_RULE = -1


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule for paths in which ``regexp`` (RE2) is found; ``""`` for all.

    It has a function or ``""``, and steps as pairs of age and length in seconds, or none. ``kind`` is ``all``,
    ``plain`` (paths without tags) or ``tagged``.
    """

    regexp: str = ""
    function: str = ""
    retentions: tuple[tuple[int, int], ...] = ()
    kind: str = "all"


@dataclass(frozen=True, slots=True)
class Rollup:
    """A section of the configuration: the columns, and the rules in order, the default last.

    Steps of more than an hour begin at midnight of ``timezone``.
    """

    section: str
    path: str = "Path"
    time: str = "Time"
    value: str = "Value"
    version: str = "Timestamp"
    patterns: tuple[Pattern, ...] = ()
    timezone: str = "UTC"

    def rules_of(self, paths: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns for each path the pattern of its steps and that of its function, ``-1`` for none.

        The first pattern with both gives both, unless two with one each come before. The default gives what is missing.
        """
        steps, functions = (np.full(len(paths), _NO_RULE) for _ in range(2))
        is_open = np.ones(len(paths), np.bool_)
        is_tagged = np.asarray(pc.match_substring(paths, "?"))
        for number, pattern in enumerate(self.patterns):
            meant = is_open & _matches(pattern, paths, is_tagged)
            replaces = bool(pattern.regexp and pattern.retentions and pattern.function)
            if pattern.retentions:
                steps[meant & (replaces | (steps == _NO_RULE))] = number
            if pattern.function:
                functions[meant & (replaces | (functions == _NO_RULE))] = number
            is_open &= (steps == _NO_RULE) | (functions == _NO_RULE)
        steps[is_open] = functions[is_open] = _NO_RULE
        return steps, functions


Rollups = Mapping[str, Rollup]
"""Rollups by section of the configuration."""


def _matches(pattern: Pattern, paths: pa.Array, is_tagged: np.ndarray) -> np.ndarray:
    found = np.ones(len(paths), np.bool_)
    if pattern.regexp:
        found = np.asarray(pc.match_substring_regex(paths, pattern.regexp))
    if pattern.kind != "all":
        found = found & (is_tagged if pattern.kind == "tagged" else ~is_tagged)
    return found


@dataclass(frozen=True)
class Graphite(MergeMode):
    """The mode of GraphiteMergeTree. ``now``: seconds since 1970.

    0: rows have no age, and only those of equal times are combined.
    """

    rollup: Rollup
    now: int = 0

    @property
    def name(self) -> str:
        return "Graphite"

    @property
    def role_columns(self) -> tuple[tuple[str, str], ...]:
        rollup = self.rollup
        return (
            (rollup.path, "path"),
            (rollup.time, "time"),
            (rollup.value, "value"),
            (rollup.version, "version"),
        )

    @property
    def needs_time(self) -> bool:
        return True

    @property
    def has_final(self) -> bool:
        return False

    def with_time(self, time: int) -> Graphite:
        return replace(self, now=time)

    @property
    def slice_mode(self) -> MergeMode:
        """Returns rows unchanged: :meth:`across` rolls them up."""
        return ORDINARY

    def reduce(self, rows: SortedRows) -> pa.Table:
        """Rolls up the rows of one block."""
        return concat_blocks(list(self.reduce_across_slices(iter([rows.block])))) if rows.block.num_rows else rows.block

    def reduce_across_slices(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yields the rolled-up rows. The last step of a block is combined with the next block."""
        waiting: pa.Table | None = None
        for block in blocks:
            steps = _Steps(block if waiting is None else concat_blocks([waiting, block]), self.rollup, self.now)
            if not len(steps.begins):
                continue
            if len(steps.begins) > 1:
                yield steps.reduced(len(steps.begins) - 1)
            waiting = steps.rows_of_last()
        if waiting is not None:
            yield _Steps(waiting, self.rollup, self.now).reduced(1)


class _Steps:
    """Sorted rows, grouped by path and time (each with the row that counts), and then into steps."""

    def __init__(self, block: pa.Table, rollup: Rollup, now: int) -> None:
        self._block, self._rollup = block, rollup
        rows = block.num_rows
        paths = _encoded(block.column(rollup.path))
        steps, functions = rollup.rules_of(paths.dictionary)
        places = paths.indices.to_numpy(zero_copy_only=False)
        times = block.column(rollup.time).combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        is_new_path = _differs(places)
        starts = np.flatnonzero(is_new_path | _differs(times))
        self._newest = _greatest_last(block.column(rollup.version), starts, rows)
        path_of, begin_times = places[starts], times[starts]
        rounded = _rounded(begin_times, steps[path_of], rollup, now)
        rounded = _not_falling(rounded, begin_times, is_new_path[starts])
        is_new_step = is_new_path[starts] | _differs(rounded)
        self.begins = np.flatnonzero(is_new_step)
        """Position of the first time of each step."""
        self._starts, self._rounded = starts, rounded
        self._functions = functions[path_of]

    def reduced(self, count: int) -> pa.Table:
        """Returns one row for each of the first ``count`` steps."""
        rollup, begins = self._rollup, self.begins[:count]
        end = self.begins[count] if count < len(self.begins) else len(self._starts)
        newest = self._newest[:end]
        last = newest[np.append(begins[1:], end) - 1]
        found = take_rows(self._block, self._starts[begins])
        values = take_rows(self._block.select([rollup.value]), newest).column(0)
        found = _with(found, rollup.time, pa.array(self._rounded[begins]))
        found = _with(found, rollup.value, self._values(values, begins))
        return _with(found, rollup.version, take_rows(self._block.select([rollup.version]), last).column(0))

    def rows_of_last(self) -> pa.Table:
        """Returns the first row of the last step, and its rows that count."""
        begin = self.begins[-1]
        wanted = np.unique(np.append(self._newest[begin:], self._starts[begin]))
        return take_rows(self._block, wanted)

    def _values(self, values: pa.ChunkedArray, begins: np.ndarray) -> pa.Array:
        numbers = pa.chunked_array([values.combine_chunks().cast(pa.float64())])
        rules = self._functions[begins]
        result = np.empty(len(begins))
        for rule in np.unique(rules):
            function = self._rollup.patterns[rule].function if rule != _NO_RULE else "anyLast"
            chosen = rules == rule
            result[chosen] = _applied(function, numbers, begins)[chosen]
        return pa.array(result)


def _applied(function: str, values: pa.ChunkedArray, begins: np.ndarray) -> np.ndarray:
    counts = np.diff(begins, append=len(values))
    if function == "count":
        return counts.astype(np.float64)
    if function == "avg":
        return sum_floats(values.to_numpy(), begins) / counts
    return np.asarray(aggregate_groups(function, values, begins))


def _encoded(paths: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = paths.cast(paths.type.value_type) if pa.types.is_dictionary(paths.type) else paths
    return whole.combine_chunks().dictionary_encode()


def _differs(values: np.ndarray) -> np.ndarray:
    """Returns a mask of the values that differ from the one before, and of the first."""
    return np.append(np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1])


def _greatest_last(versions: pa.ChunkedArray, starts: np.ndarray, rows: int) -> np.ndarray:
    """Returns for each time the row of the greatest version, the last of equal ones."""
    if not rows:
        return starts
    codes = encode_keys([versions], rows)[0].codes
    greatest = np.repeat(np.maximum.reduceat(codes, starts), np.diff(starts, append=rows))
    return np.maximum.reduceat(np.where(codes == greatest, np.arange(rows), -1), starts)


def _rounded(times: np.ndarray, rules: np.ndarray, rollup: Rollup, now: int) -> np.ndarray:
    """Returns for each time the beginning of its step."""
    lengths = np.ones(len(times), np.int64)
    for rule in np.unique(rules[rules != _NO_RULE]) if now else ():
        ages = np.where(rules == rule, now - times, -1)
        for age, length in sorted(rollup.patterns[rule].retentions):  # the greatest age that is reached counts
            lengths[(ages >= age) & (ages >= 0)] = length
    rounded = times // lengths * lengths
    is_long = lengths > _HOUR_SECONDS
    if is_long.any():
        midnights = _midnights(times[is_long], rollup.timezone)
        rounded[is_long] = midnights + (times[is_long] - midnights) // lengths[is_long] * lengths[is_long]
    return rounded


def _midnights(times: np.ndarray, timezone: str) -> np.ndarray:
    local = pc.local_timestamp(pa.array(times).cast(pa.timestamp("s", timezone)))
    days = pc.floor_temporal(local, unit="day")
    found = pc.assume_timezone(days, timezone, ambiguous="earliest", nonexistent="latest")
    return np.asarray(found.cast(pa.int64()))


def _not_falling(rounded: np.ndarray, times: np.ndarray, is_new_path: np.ndarray) -> np.ndarray:
    """Lets a step begin no earlier than that of older rows, so that sorted rows stay in order of time."""
    found, begins = rounded.copy(), np.flatnonzero(is_new_path)
    falls = np.flatnonzero((rounded[1:] < rounded[:-1]) & ~is_new_path[1:]) + 1
    for path in np.unique(np.searchsorted(begins, falls, "right") - 1):  # few, if any
        rows = slice(begins[path], begins[path + 1] if path + 1 < len(begins) else len(rounded))
        if (np.diff(times[rows]) >= 0).all():
            found[rows] = np.maximum.accumulate(rounded[rows])
    return found


def _with(block: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    position = block.schema.get_field_index(name)
    return block.set_column(position, block.schema.field(position), values.cast(block.schema.field(position).type))


def make_mode(arguments: Sequence[str], schema: TableSchema, keys: KeyColumns) -> Graphite:
    """Makes the mode. ``arguments``: the section of the configuration.

    Raises 139 if the section does not exist, 16 and 169 for wrong columns.
    """
    (section,) = arguments
    rollup = keys.rollups.get(section)
    if rollup is None:
        known = f"; there are: {', '.join(sorted(keys.rollups))}" if keys.rollups else ""
        raise UserError("NO_ELEMENTS_IN_CONFIG", f"No '{section}' element in configuration file{known}")
    assert isinstance(rollup, Rollup)
    kinds = {
        "path": (rollup.path, (StringType,)),
        "time": (rollup.time, (DateTimeType, IntegerType)),
        "value": (rollup.value, (FloatType,)),
    }
    for what, (name, types) in kinds.items():
        type_ = find_stored_column(schema, name, what.capitalize()).type
        inner = strip_low_cardinality(type_)
        if not isinstance(inner, types):
            wanted = " or ".join(kind.__name__.removesuffix("Type") for kind in types)
            raise _wrong_type(what, name, type_, wanted)
    version = find_stored_column(schema, rollup.version, "Version")
    if not can_be_version(version.type):
        raise _wrong_type("version", version.name, version.type, "a number or a time")
    return Graphite(rollup)


def _wrong_type(what: str, name: str, type_: DataType, wanted: str) -> UserError:
    return UserError(
        "BAD_TYPE_OF_FIELD", f"The {what} column {name} of GraphiteMergeTree is of type {type_}; it must be {wanted}"
    )
