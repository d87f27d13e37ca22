"""Function table: name → argument rules → result type and DuckDB expression.

A rule's ``build`` gets a :class:`Call` and returns a ``Typed``. Unless the rule says otherwise, ``apply`` first applies
ClickHouse's common rules:

- A NULL literal makes the result NULL.
- Nullable is taken off the arguments and put around the result (DuckDB's operators return NULL for NULL anyway).
- LowCardinality stays when one argument has it and the others are constants.

A name that is not in the table is refused with code 46: nothing is ever guessed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DateTime64Type,
    DecimalType,
    EnumType,
    LowCardinalityType,
    MapType,
    NothingType,
    TupleType,
    check_timezone,
    make_nullable,
    strip_nullable,
)
from sql.functions.known_functions import known_functions
from sql.functions.lambda_bodies import with_vector_form
from sql.grammar.syntax_tree import Function
from sql.relations import UNKNOWN_POSITIONS, TablePositions
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import ELEMENT, EMPTY, HIDES_NULL, Fragment, IntegerSum, fragment, join_fragments
from sql.typing.typed_expressions import NOT_LITERAL, LambdaType, Typed, literal


@dataclass(frozen=True, slots=True)
class Environment:
    """The query state that functions may read: time zone, session constants, clock, settings."""

    zone: str = "UTC"
    constants: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    settings: Settings = DEFAULT_SETTINGS
    positions: TablePositions = UNKNOWN_POSITIONS


@dataclass(frozen=True, slots=True)
class Call:
    """One call: ``args`` and ``params`` are compiled, ``name`` is canonical, ``node`` is the syntax tree.

    ``distinct`` and ``filter`` belong to aggregates: the SQL before the arguments and after the closing bracket.
    ``is_nullable``: an argument was Nullable before ``apply`` took that off (see ``Rule.nulls``).
    """

    name: str
    args: tuple[Typed, ...]
    environment: Environment
    params: tuple[Typed, ...] = ()
    node: Function | None = None
    distinct: str = ""
    filter: Fragment = EMPTY
    is_nullable: bool = False

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the arguments."""
        return tuple(arg.type for arg in self.args)

    def wrong_type(self, position: int, expected: str = "") -> UserError:
        """Returns error 43 for the argument at ``position``, counted from 0."""
        hint = f", expected {expected}" if expected else ""
        return UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT",
            f"Illegal type {self.args[position].type} of argument {position + 1} of function {self.name}{hint}",
        )

    def constant_int(self, position: int, default: int | None = None) -> int:
        """Returns an argument that must be a literal integer. Raises ``UserError`` 44."""
        if position >= len(self.args) and default is not None:
            return default
        value = self.args[position].value
        if isinstance(value, bool) or not isinstance(value, int):
            raise UserError(
                "ILLEGAL_COLUMN", f"Argument {position + 1} of function {self.name} must be a constant integer"
            )
        return value

    def constant_precision(self, position: int, default: int | None = None) -> int:
        """Returns the number of decimal digits of a DateTime64's seconds.

        Raises ``UserError`` 69 for a number that is not from 0 to 9.
        """
        precision = self.constant_int(position, default)
        if not 0 <= precision <= 9:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Scale {precision} of DateTime64 must be from 0 to 9")
        return precision

    def constant_text(self, position: int) -> str:
        """Returns an argument that must be a literal string. Raises ``UserError`` 44."""
        value = self.args[position].value
        if not isinstance(value, str):
            raise UserError(
                "ILLEGAL_COLUMN", f"Argument {position + 1} of function {self.name} must be a constant string"
            )
        return value

    def constant_zone(self, position: int) -> str | None:
        """Returns the time zone named by an optional argument, or ``None``.

        Raises ``UserError`` 36 for an unknown zone.
        """
        if position >= len(self.args):
            return None
        return check_timezone(self.constant_text(position) or None)


Build = Callable[[Call], Typed]


@dataclass(frozen=True, slots=True)
class Rule:
    """One function of the table: its name, its ``build``, its number of arguments, the rules that apply.

    ``nulls``: NULL and Nullable get the common treatment. ``takes_conditions``: arguments that are DuckDB BOOLEANs are
    passed as they are, not as UInt8.
    """

    name: str
    build: Build
    min_arguments: int
    max_arguments: int | None
    nulls: bool = True
    low_cardinality: bool = True
    takes_conditions: bool = False
    aggregate: bool = False
    empty_nan: bool = False
    """For aggregates: no aggregated row gives NaN instead of the type's default."""
    never_null: bool = False
    """For aggregates: the result is not Nullable even for Nullable arguments (count, uniq, groupArray)."""


_RULES: dict[str, Rule] = {}
_LOWER: dict[str, str] = {}
_AGGREGATES: dict[str, Rule] = {}


def define(names: str, build: Build, arguments: int | tuple[int, int | None], **options: bool) -> None:
    """Enters a rule under its names, separated by spaces; the first is canonical, the rest aliases."""
    least, most = arguments if isinstance(arguments, tuple) else (arguments, arguments)
    canonical = names.split()[0]
    rule = Rule(canonical, build, least, most, **options)
    known = known_functions()
    for name in names.split():
        (_AGGREGATES if rule.aggregate else _RULES)[name] = rule
        if name in known and known[name].any_case:
            _LOWER.setdefault(name.lower(), name)


def function(names: str, arguments: int | tuple[int, int | None], **options: bool) -> Callable[[Build], Build]:
    """Returns ``define`` as a decorator."""

    def enter(build: Build) -> Build:
        define(names, build, arguments, **options)
        return build

    return enter


def find_rule(name: str) -> Rule | None:
    """Returns a scalar function's rule, or ``None``. Some names are found in any case."""
    return _RULES.get(name) or _RULES.get(_LOWER.get(name.lower(), ""))


def find_aggregate(name: str) -> Rule | None:
    """Returns an aggregate function's rule, or ``None``. Some names are found in any case."""
    return _AGGREGATES.get(name) or _AGGREGATES.get(_LOWER.get(name.lower(), ""))


def canonical_function_name(name: str) -> str:
    """Returns the table's spelling of a case-insensitive name; other names unchanged."""
    if name in _RULES or name in _AGGREGATES:
        return name
    return _LOWER.get(name.lower(), name)


def list_functions() -> list[tuple[str, bool]]:
    """Returns (name, whether it is an aggregate) of all functions, sorted."""
    return sorted([*((name, False) for name in _RULES), *((name, True) for name in _AGGREGATES)])


def unknown_function_error(name: str) -> UserError:
    """Returns error 46 for an unknown name, with similar names as a hint."""
    close = difflib.get_close_matches(name, [*_RULES, *_AGGREGATES], n=2)
    hint = f". Maybe you meant: {close}" if close else ""
    return UserError("UNKNOWN_FUNCTION", f"Function with name `{name}` does not exist or is not supported{hint}")


def check_arity(rule: Rule, count: int) -> None:
    """Raises ``UserError`` 42 if a function does not take this number of arguments."""
    least, most = rule.min_arguments, rule.max_arguments
    if count < least or (most is not None and count > most):
        wanted = str(least) if most == least else f"{least} to {most or 'any number'}"
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
            f"Number of arguments for function {rule.name} doesn't match: passed {count}, should be {wanted}",
        )


NEVER_CONSTANT = frozenset({"materialize", "blockSize", "rowNumberInBlock", "sleep", "sleepEachRow"})


def apply(rule: Rule, call: Call) -> Typed:
    """Compiles a call of a scalar function under the common rules. Raises ``UserError`` 42."""
    check_arity(rule, len(call.args))
    args = call.args if rule.takes_conditions else tuple(arg.plain for arg in call.args)
    constant = rule.name not in NEVER_CONSTANT and all(arg.is_constant for arg in args)
    if not rule.nulls:
        result = rule.build(replace(call, args=args))
        return _mark_constant(_add_vector_form(rule, args, result), constant)
    if any(isinstance(strip_nullable(arg.type), NothingType) for arg in args):
        return literal(None)
    nullable = any(arg.type.is_nullable for arg in args)
    stripped = tuple([_with_type(arg, strip_nullable(arg.type)) for arg in args])
    result = rule.build(replace(call, args=stripped, is_nullable=nullable))
    type_ = make_nullable(result.type) if nullable else result.type
    if nullable and not result.type.is_nullable:
        if type_.is_nullable:
            result = _restore_nulls(result, args)
        else:  # an array cannot be NULL: it is computed from the default under the NULL
            filled = zip(args, stripped, strict=True)
            known = tuple(_fill_nulls(given, bare) if given.type.is_nullable else bare for given, bare in filled)
            result = rule.build(replace(call, args=known))
    if rule.low_cardinality and _keeps_low_cardinality(args, type_):
        type_ = LowCardinalityType(type_)
    return _mark_constant(_add_vector_form(rule, args, _with_type(result, type_)), constant)


def _add_vector_form(rule: Rule, args: tuple[Typed, ...], result: Typed) -> Typed:
    return with_vector_form(rule.name, args, result) if result.sql.traits & ELEMENT else result


def _with_type(value: Typed, type_: DataType) -> Typed:
    """Returns the value with another type. This costs a third of ``replace``, and runs for every argument."""
    if type_ is value.type:
        return value
    return Typed(value.sql, type_, value.value, value.is_constant, value.is_condition, value.elements, value.apply)


def _restore_nulls(result: Typed, args: Sequence[Typed]) -> Typed:
    """Makes the result NULL for a NULL argument where DuckDB would answer something else."""
    if isinstance(result.sql, IntegerSum) or not _hides_null(result.sql, [arg.sql for arg in args]):
        return result
    missing = join_fragments(" OR ", [fragment("{} IS NULL", arg.sql) for arg in args if arg.type.is_nullable])
    return replace(result, sql=fragment("(CASE WHEN {} THEN NULL ELSE {} END)", missing, result.sql))


def _hides_null(sql: Fragment, args: Sequence[Fragment]) -> bool:
    """Tells whether the SQL around the arguments may turn a NULL argument into another value."""
    ahead = [sql]
    while ahead:
        node = ahead.pop()
        if not node.traits & HIDES_NULL or node in args:
            continue
        if node.own_traits & HIDES_NULL:
            return True
        ahead.extend(node.fragments)
    return False


def _fill_nulls(given: Typed, bare: Typed) -> Typed:
    return replace(bare, sql=fragment("coalesce({}, {})", given.sql, default_value(bare.type)))


def _mark_constant(result: Typed, constant: bool) -> Typed:
    return replace(result, is_constant=True) if constant and not result.is_constant else result


def _keeps_low_cardinality(args: Sequence[Typed], result: DataType) -> bool:
    full = [arg for arg in args if isinstance(arg.type, LowCardinalityType)]
    if len(full) != 1 or not all(arg.is_constant for arg in args if arg is not full[0]):
        return False
    bare = strip_nullable(result)
    return not isinstance(
        bare,
        (ArrayType, MapType, TupleType, DecimalType, EnumType, BoolType, DateTime64Type, LambdaType, NothingType),
    )


def typed_result(sql: Fragment, type_: DataType, *, condition: bool = False, value: Any = NOT_LITERAL) -> Typed:
    """Returns compiled SQL as a value; ``condition``: it is a DuckDB BOOLEAN."""
    return Typed(sql, type_, value, is_condition=condition)
