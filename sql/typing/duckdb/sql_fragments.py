"""DuckDB SQL under construction: a tree of pieces that is rendered once for a statement.

A :class:`Fragment` is made from a template and the pieces for its holes, ``fragment("abs({})", value)``. It is never
cut, searched or copied as text. Its size and its *traits*, what its words mean for rules that use it, are known when it
is made; what it reads is found among its nodes.

sqlglot's expressions were measured for this. For the queries of the tests its generator took eleven times as long as
rendering such a tree, longer than compiling takes. Making its nodes took three times as long.

Invariants

- A fragment never changes, and may be part of many others.
- Fragments made of equal pieces in the same way are equal; so are the results of a rule for equal arguments.
- Text that a user wrote is only in leaves, which have no traits (``string_literal``, ``quote_identifier``).
- Nothing here recurses: trees are as deep as the queries that the limits let through.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import NamedTuple, NoReturn

from sql.typing.duckdb.macro_weights import expansion_weight, raises

WINDOW = 1
"""A window function: computed after WHERE and GROUP BY."""
WRITE_ONCE = 2
"""Must not be written twice: a subquery, a window, an error, or a value that changes with every call."""
RANDOM = 4
"""Returns another value at every call."""
GUARDED = 8
"""Contains a memory check (``sql.functions.memory_guards``)."""
HIDES_NULL = 16
"""May not be NULL where an operand is NULL."""
WATCHED = 32
"""Contains a lambda that checks whether the query may go on."""
UNWATCHED = 64
"""Contains a lambda without that check."""
MACRO = 128
"""Contains a macro of Pando, which DuckDB expands (``sql.typing.duckdb.macro_weights``)."""
SCANNABLE = 256
"""A scan may compute it, or a part of it (``sql.typing.column_kernels.scannable``)."""
ELEMENT = 512
"""Contains a lambda's variable."""
RAISES = 1024
"""May raise one of Pando's errors."""

_TRAITS = (
    (" OVER (", WINDOW | WRITE_ONCE),
    ("pando_random(", RANDOM | WRITE_ONCE),
    ("pando_any_uuid(", RANDOM | WRITE_ONCE),
    ("SELECT ", WRITE_ONCE),
    ("error(", WRITE_ONCE),
    ("pando_room(", GUARDED),
    (";watch'", WATCHED),
    ("pando_", MACRO),
    *((word, HIDES_NULL) for word in (
        "coalesce(", "CASE ", "list_transform(", "greatest(", "least(", "concat_ws(", "list_append(",
        "pando_position_from(", "pando_character_from(", "pando_pad_length(", "pando_hypot(", "pando_log(",
    )),
)  # fmt: skip
"""Words of a template, and the traits that they give to every fragment that contains it."""


class Fragment:
    """A piece of SQL: ``texts`` with a part between each and the next.

    ``size`` is in characters. ``traits`` cover the whole piece, ``own_traits`` its texts alone. ``weight`` and
    ``depth`` measure what DuckDB has to plan (``sql.typing.duckdb.macro_weights``). A part that is a ``str`` is a name,
    a type, a number or a keyword.
    """

    __slots__ = ("_hash", "depth", "own_traits", "parts", "size", "texts", "traits", "weight")

    def __init__(
        self,
        texts: tuple[str, ...],
        parts: tuple[Fragment | str, ...],
        size: int,
        traits: int = 0,
        own_traits: int = 0,
        weight: int = 1,
        depth: int = 0,
    ) -> None:
        self.texts = texts
        self.parts = parts
        self.size = size
        self.traits = traits
        self.own_traits = own_traits
        self.weight = weight
        self.depth = depth
        self._hash: int | None = None

    @property
    def fragments(self) -> list[Fragment]:
        """The parts that are fragments."""
        return [part for part in self.parts if part.__class__ is not str]  # type: ignore[misc]

    def render(self, tables: Mapping[int, str] | None = None) -> str:
        """Returns the text; ``tables`` maps the numbers of scans to their text in FROM."""
        written: list[str] = []
        ahead: list[Fragment | str] = [self]
        while ahead:
            piece = ahead.pop()
            if piece.__class__ is str:
                written.append(piece)
                continue
            texts, parts = piece.texts, piece.parts  # type: ignore[union-attr]
            if parts:
                position = len(parts)
                while position:
                    ahead.append(texts[position])
                    position -= 1
                    ahead.append(parts[position])
            elif tables and isinstance(piece, ScanReference):
                written.append(tables.get(piece.number, texts[0]))
                continue
            written.append(texts[0])
        return "".join(written)

    def with_parts(self, parts: tuple[Fragment | str, ...]) -> Fragment:
        """Returns the same texts around other parts."""
        return _build(_measure(self.texts), parts)

    def nodes(self) -> Iterator[Fragment]:
        """Yields the fragment and all fragments in it, each once."""
        met = {id(self)}
        ahead = [self]
        for node in ahead:
            yield node
            for part in node.parts:
                if isinstance(part, Fragment) and id(part) not in met:
                    met.add(id(part))
                    ahead.append(part)

    def unfinished(self, is_finished: Callable[[Fragment], bool]) -> Iterator[Fragment]:
        """Yields the nodes that are not finished, each after its parts.

        The caller must finish each node before it asks for the next.
        """
        ahead = [self]
        while ahead:
            node = ahead[-1]
            if is_finished(node):
                ahead.pop()
                continue
            waiting = [part for part in node.parts if part.__class__ is not str and not is_finished(part)]  # type: ignore[arg-type]
            if waiting:
                ahead += waiting  # type: ignore[arg-type]
            else:
                yield ahead.pop()

    def __bool__(self) -> bool:
        """Tells whether there is any text."""
        return self.size > 0

    def __hash__(self) -> int:
        if self._hash is not None:
            return self._hash
        for node in self.unfinished(lambda node: node._hash is not None):
            # The parts have their hashes already, so this does not recurse.
            node._hash = hash((node.texts, *node.parts)) if node.parts else hash(node.texts)
        assert self._hash is not None
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Fragment):
            return NotImplemented
        if self.size != other.size or hash(self) != hash(other):
            return False
        met: set[tuple[int, int]] = set()
        ahead: list[tuple[Fragment, Fragment]] = [(self, other)]
        while ahead:
            one, two = ahead.pop()
            if one is two or (id(one), id(two)) in met:
                continue
            met.add((id(one), id(two)))
            if one._hash != two._hash or one.texts != two.texts or _text_parts(one) != _text_parts(two):
                return False
            ahead.extend(zip(one.fragments, two.fragments, strict=True))
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.render()}>"

    def __str__(self) -> NoReturn:
        raise TypeError("a fragment is no text: put it into the hole of a template, fragment('f({})', part)")

    def __format__(self, spec: str) -> NoReturn:
        self.__str__()


def _text_parts(node: Fragment) -> list[Fragment | str | None]:
    return [part if part.__class__ is str else None for part in node.parts]


Piece = Fragment | str | int
"""A part of a fragment. A ``str`` is a name, a type or a keyword that the compiler wrote; it has no traits."""


class ScanReference(Fragment):
    """A scan in FROM. Its text is known only when all columns that are read are known."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        name = f"s{number}"
        super().__init__((name,), (), len(name))
        self.number = number


Summands = tuple[tuple[int, Fragment], ...]


class IntegerSum(Fragment):
    """A sum of integers in 64 bits: the low bits of the sum of ``summands``, which are HUGEINT.

    Each summand comes with the number of integers that it sums.
    """

    __slots__ = ("summands",)

    def __init__(self, sql: Fragment, summands: Summands) -> None:
        super().__init__(sql.texts, sql.parts, sql.size, sql.traits, sql.own_traits, sql.weight, sql.depth)
        self.summands = summands


def leaf(text: str) -> Fragment:
    """Returns a name or a literal as a fragment without traits."""
    texts = (text,)
    made = Fragment(texts, (), len(text))
    made._hash = hash(texts)
    return made


EMPTY = leaf("")


def fragment(template: str, *parts: Piece, **named: Piece) -> Fragment:
    """Fills the holes of ``template`` with parts, like ``str.format``: ``{}``, ``{0}`` or ``{name}``.

    A template is a constant of the code: it is parsed once, and cached.
    """
    shape, names = _parse_template(template)
    if names:
        parts = tuple([parts[name] if isinstance(name, int) else named[name] for name in names])
    return _build(shape, parts)


def function_call(function: str, *arguments: Piece) -> Fragment:
    """Returns a call of a DuckDB function or macro whose name is not fixed in a template."""
    return _build(_call_shape(function, len(arguments)), arguments)


def join_fragments(separator: str, parts: Iterable[Piece]) -> Fragment:
    """Joins the parts with ``separator``; no parts give ``EMPTY``."""
    given = tuple(parts)
    if len(given) == 1 and isinstance(given[0], Fragment):
        return given[0]
    if not given:
        return EMPTY
    between = len(given) - 1
    texts = ("", *(separator,) * between, "")
    return _build(_Shape(texts, len(separator) * between, 0, 0, 0, ((1, 0),) * len(given)), given)


class _Shape(NamedTuple):
    """The facts about texts around parts; ``holes``: how often and how deep each part is written."""

    texts: tuple[str, ...]
    size: int
    traits: int
    weight: int
    depth: int
    holes: tuple[tuple[int, int], ...]


def _build(shape: _Shape, given: Sequence[Piece]) -> Fragment:
    texts, size, own_traits, weight, depth, holes = shape
    if len(given) != len(holes):
        raise TypeError(f"{len(given)} parts for the holes of {'{}'.join(texts)}")
    traits = own_traits
    parts: list[Fragment | str] = []
    for part, (times, level) in zip(given, holes, strict=False):
        if isinstance(part, Fragment):
            size += part.size
            traits |= part.traits
            weight += times * part.weight
            if level + part.depth > depth:
                depth = level + part.depth
        else:
            if part.__class__ is not str:
                part = _integer_text(part)
            size += len(part)
            weight += times
        parts.append(part)
    return Fragment(texts, tuple(parts), size, traits, own_traits, weight, depth)


def _integer_text(part: object) -> str:
    if part.__class__ is not int:
        raise TypeError(f"{part!r} cannot stand in a hole")
    return str(part)


@lru_cache(8192)
def _parse_template(template: str) -> tuple[_Shape, tuple[str | int, ...]]:
    """Returns the shape of a template, and the names or positions of its parts unless they are in order."""
    texts = [""]
    names: list[str | int] = []
    places = itertools.count()
    for text, name, spec, _ in Formatter().parse(template):
        assert not spec, template
        texts[-1] += text
        if name is not None:
            texts.append("")
            names.append(next(places) if not name else int(name) if name.isdigit() else name)
    in_order = names == list(range(len(names)))
    return _measure(tuple(texts)), () if in_order else tuple(names)


@lru_cache(1024)
def _call_shape(function: str, count: int) -> _Shape:
    return _measure((f"{function}(", *(", ",) * (count - 1), ")") if count else (f"{function}()",))


def _measure(texts: tuple[str, ...]) -> _Shape:
    traits = 0
    for word, meant in _TRAITS:
        if any(word in text for text in texts):
            traits |= meant
    if raises(texts):
        traits |= RAISES
    weight, depth, holes = expansion_weight(texts)
    return _Shape(texts, sum(map(len, texts)), traits, weight, depth, holes)
