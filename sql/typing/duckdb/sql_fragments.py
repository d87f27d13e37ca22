"""DuckDB SQL under construction: a tree of pieces, rendered once for a statement.

A :class:`Fragment` is made from a template and what stands in its holes, ``fragment("abs({})", value)``. It is never
cut, searched or copied as text: its size and its *traits*, what its words mean for rules that use it, are known when it
is made, and what it reads is found among its nodes.

sqlglot's expressions were measured for this. For the queries of the tests its generator took eleven times as long as
rendering a tree of pieces of the same shape, longer than compiling takes, and making its nodes took three times as
long.

Invariants

- A fragment never changes, and may be part of many others.
- Fragments are equal when they are made of equal pieces in the same way, as what a rule makes of equal arguments is.
- What a user wrote stands only in leaves, which have no traits (``typed.text``, ``typed.quoted``).
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
"""Must not be written twice: a subquery, a window, an error, or another value at every call."""
RANDOM = 4
"""Another value at every call."""
GUARDED = 8
"""Asks for room before it makes values (``sql.functions.memory_guards``)."""
HIDES_NULL = 16
"""May be something else than NULL where an operand is NULL."""
WATCHED = 32
"""A lambda that looks whether the query may go on."""
UNWATCHED = 64
"""A lambda that does not."""
MACRO = 128
"""DuckDB writes a macro of Pando's out (``sql.typing.duckdb.macro_weights``)."""
SCANNABLE = 256
"""A scan may compute it, or a part of it (``sql.typing.column_kernels.scannable``)."""
ELEMENT = 512
"""Made of a lambda's variable."""
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
"""What the words of a template mean for all that is made of it."""


class Fragment:
    """``texts`` with a part between each and the next.

    ``size`` is in characters; ``traits`` are of all that is in it, ``own_traits`` of the texts alone; ``weight`` and
    ``depth`` are what DuckDB has to plan (``sql.typing.duckdb.macro_weights``). A part that is a ``str`` is a name, a
    type, a number or a keyword.
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
        """Its parts but for names, types, numbers and keywords."""
        return [part for part in self.parts if part.__class__ is not str]  # type: ignore[misc]

    def render(self, tables: Mapping[int, str] | None = None) -> str:
        """The text, with a :class:`ScanReference` as ``tables`` says or by its name."""
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
        """The same texts around other parts."""
        return _made(_shape(self.texts), parts)

    def nodes(self) -> Iterator[Fragment]:
        """Itself and all fragments that it is made of, each once."""
        met = {id(self)}
        ahead = [self]
        for node in ahead:
            yield node
            for part in node.parts:
                if isinstance(part, Fragment) and id(part) not in met:
                    met.add(id(part))
                    ahead.append(part)

    def unfinished(self, is_finished: Callable[[Fragment], bool]) -> Iterator[Fragment]:
        """The nodes that are not finished, each after its parts; whoever iterates finishes them."""
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
        """Whether there is any text."""
        return self.size > 0

    def __hash__(self) -> int:
        if self._hash is not None:
            return self._hash
        for node in self.unfinished(lambda node: node._hash is not None):
            # Its parts know theirs: this is no recursion.
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
            if one._hash != two._hash or one.texts != two.texts or _names(one) != _names(two):
                return False
            ahead.extend(zip(one.fragments, two.fragments, strict=True))
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.render()}>"

    def __str__(self) -> NoReturn:
        raise TypeError("a fragment is no text: put it into the hole of a template, fragment('f({})', part)")

    def __format__(self, spec: str) -> NoReturn:
        self.__str__()


def _names(node: Fragment) -> list[Fragment | str | None]:
    return [part if part.__class__ is str else None for part in node.parts]


Piece = Fragment | str | int
"""What stands in a hole. A ``str`` is a name, a type or a keyword that a compiler wrote, and has no traits."""


class ScanReference(Fragment):
    """A scan in FROM: its text is known when all columns are known that are read."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        name = f"s{number}"
        super().__init__((name,), (), len(name))
        self.number = number


Summands = tuple[tuple[int, Fragment], ...]


class IntegerSum(Fragment):
    """A sum of integers in 64 bits: the low bits of the sum of ``summands``, which are HUGEINT.

    Beside each stands of how many numbers it is the sum.
    """

    __slots__ = ("summands",)

    def __init__(self, sql: Fragment, summands: Summands) -> None:
        super().__init__(sql.texts, sql.parts, sql.size, sql.traits, sql.own_traits, sql.weight, sql.depth)
        self.summands = summands


def leaf(text: str) -> Fragment:
    """A name or a literal: nothing follows from its words."""
    texts = (text,)
    made = Fragment(texts, (), len(text))
    made._hash = hash(texts)
    return made


EMPTY = leaf("")


def fragment(template: str, *parts: Piece, **named: Piece) -> Fragment:
    """``template`` with parts in its holes, as in ``str.format``: ``{}`` and ``{0}`` by place, ``{name}`` by name.

    A template is written in the code: it is read once, and kept.
    """
    shape, names = _form(template)
    if names:
        parts = tuple([parts[name] if isinstance(name, int) else named[name] for name in names])
    return _made(shape, parts)


def function_call(function: str, *arguments: Piece) -> Fragment:
    """A call of DuckDB's function or macro, for names that no template has."""
    return _made(_call_shape(function, len(arguments)), arguments)


def join_fragments(separator: str, parts: Iterable[Piece]) -> Fragment:
    """The parts with ``separator`` between them, nothing if there are none."""
    given = tuple(parts)
    if len(given) == 1 and isinstance(given[0], Fragment):
        return given[0]
    if not given:
        return EMPTY
    between = len(given) - 1
    texts = ("", *(separator,) * between, "")
    return _made(_Shape(texts, len(separator) * between, 0, 0, 0, ((1, 0),) * len(given)), given)


class _Shape(NamedTuple):
    """What is known of texts around parts; ``holes`` say how often and how deep each part is written."""

    texts: tuple[str, ...]
    size: int
    traits: int
    weight: int
    depth: int
    holes: tuple[tuple[int, int], ...]


def _made(shape: _Shape, given: Sequence[Piece]) -> Fragment:
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
                part = _number(part)
            size += len(part)
            weight += times
        parts.append(part)
    return Fragment(texts, tuple(parts), size, traits, own_traits, weight, depth)


def _number(part: object) -> str:
    if part.__class__ is not int:
        raise TypeError(f"{part!r} cannot stand in a hole")
    return str(part)


@lru_cache(8192)
def _form(template: str) -> tuple[_Shape, tuple[str | int, ...]]:
    """The shape of a template, and the names or places of its parts unless they are in order."""
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
    return _shape(tuple(texts)), () if in_order else tuple(names)


@lru_cache(1024)
def _call_shape(function: str, count: int) -> _Shape:
    return _shape((f"{function}(", *(", ",) * (count - 1), ")") if count else (f"{function}()",))


def _shape(texts: tuple[str, ...]) -> _Shape:
    traits = 0
    for word, meant in _TRAITS:
        if any(word in text for text in texts):
            traits |= meant
    if raises(texts):
        traits |= RAISES
    weight, depth, holes = expansion_weight(texts)
    return _Shape(texts, sum(map(len, texts)), traits, weight, depth, holes)
