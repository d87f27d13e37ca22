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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import NoReturn

WINDOW = 1
"""A window function: computed after WHERE and GROUP BY."""
ONCE = 2
"""Must not be written twice: a subquery, a window, an error, or another value at every call."""
RANDOM = 4
"""Another value at every call."""
GUARDED = 8
"""Asks for room before it makes values (``sql.functions.guards``)."""
HIDES_NULL = 16
"""May be something else than NULL where an operand is NULL."""
WATCHED = 32
"""A lambda that looks whether the query may go on."""
UNWATCHED = 64
"""A lambda that does not."""
MACRO = 128
"""DuckDB writes a macro of Pando's out (``sql.functions.macros``)."""

_TRAITS = (
    (" OVER (", WINDOW | ONCE),
    ("random()", RANDOM | ONCE),
    ("uuid()", RANDOM | ONCE),
    ("SELECT ", ONCE),
    ("error(", ONCE),
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
    """``texts`` with a part between each and the next. ``size`` is in characters; ``traits`` are of all that is in it.

    A part that is a ``str`` is a name, a type, a number or a keyword.
    """

    __slots__ = ("_hash", "measured", "parts", "size", "texts", "traits")

    def __init__(self, texts: tuple[str, ...], parts: tuple[Fragment | str, ...], size: int, traits: int) -> None:
        self.texts = texts
        self.parts = parts
        self.size = size
        self.traits = traits
        self.measured: tuple[int, int] | None = None
        """Weight and depth, once asked for (``sql.functions.macro_weight``)."""
        self._hash: int | None = None

    @property
    def own_traits(self) -> int:
        """The traits of its texts, without those of its parts."""
        return _traits_of(self.texts)

    @property
    def fragments(self) -> list[Fragment]:
        """Its parts but for names, types, numbers and keywords."""
        return [part for part in self.parts if part.__class__ is not str]  # type: ignore[misc]

    def render(self, tables: Mapping[int, str] | None = None) -> str:
        """The text, with a :class:`Table` as ``tables`` says or by its name."""
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
            elif tables and isinstance(piece, Table):
                written.append(tables.get(piece.number, texts[0]))
                continue
            written.append(texts[0])
        return "".join(written)

    def with_parts(self, parts: tuple[Fragment | str, ...]) -> Fragment:
        """The same texts around other parts."""
        return _made(self.texts, sum(map(len, self.texts)), self.own_traits, parts)

    def nodes(self) -> Iterator[Fragment]:
        """Itself and all fragments that it is made of, each once."""
        met: set[int] = set()
        ahead = [self]
        while ahead:
            node = ahead.pop()
            if id(node) not in met:
                met.add(id(node))
                ahead.extend(node.fragments)
                yield node

    def unfinished(self, is_finished: Callable[[Fragment], bool]) -> Iterator[Fragment]:
        """The nodes that are not finished, each after its parts; whoever iterates finishes them."""
        ahead = [self]
        while ahead:
            node = ahead[-1]
            waiting = () if is_finished(node) else [part for part in node.fragments if not is_finished(part)]
            if waiting:
                ahead.extend(waiting)
                continue
            ahead.pop()
            if not is_finished(node):
                yield node

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


class Table(Fragment):
    """A scan in FROM: its text is known when all columns are known that are read."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        name = f"s{number}"
        super().__init__((name,), (), len(name), 0)
        self.number = number


class IntegerSum(Fragment):
    """A sum of integers in 64 bits: the low bits of the sum of ``summands``, which are HUGEINT."""

    __slots__ = ("summands",)

    def __init__(self, sql: Fragment, summands: tuple[Fragment, ...]) -> None:
        super().__init__(sql.texts, sql.parts, sql.size, sql.traits)
        self.summands = summands


def leaf(text: str) -> Fragment:
    """A name or a literal: nothing follows from its words."""
    texts = (text,)
    made = Fragment(texts, (), len(text), 0)
    made.measured = (1, 0)
    made._hash = hash(texts)
    return made


def fragment(template: str, *parts: Piece, **named: Piece) -> Fragment:
    """``template`` with parts in its holes, as in ``str.format``: ``{}`` and ``{0}`` by place, ``{name}`` by name.

    A template is written in the code: it is read once, and kept.
    """
    texts, size, traits, names = _form(template)
    if not names:
        return _made(texts, size, traits, parts)
    in_order = iter(parts)
    return _made(
        texts,
        size,
        traits,
        [parts[int(name)] if name.isdigit() else named[name] if name else next(in_order) for name in names],
    )


def called(function: str, *arguments: Piece) -> Fragment:
    """A call of DuckDB's function or macro, for names that no template has."""
    return _made(*_call_form(function, len(arguments)), arguments)


def joined(separator: str, parts: Iterable[Piece]) -> Fragment:
    """The parts with ``separator`` between them, nothing if there are none."""
    given = tuple(parts)
    if len(given) == 1 and isinstance(given[0], Fragment):
        return given[0]
    between = len(given) - 1
    return _made(("", *(separator,) * between, ""), len(separator) * between, 0, given) if given else EMPTY


def _made(texts: tuple[str, ...], size: int, traits: int, given: Sequence[Piece]) -> Fragment:
    if len(given) != len(texts) - 1:
        raise TypeError(f"{len(given)} parts for the holes of {'{}'.join(texts)}")
    parts: list[Fragment | str] = []
    for part in given:
        if isinstance(part, Fragment):
            size += part.size
            traits |= part.traits
        else:
            part = _word(part)
            size += len(part)
        parts.append(part)
    return Fragment(texts, tuple(parts), size, traits)


def _word(part: str | int) -> str:
    if part.__class__ is str:
        return part
    if part.__class__ is int:
        return str(part)
    raise TypeError(f"{part!r} cannot stand in a hole")


@lru_cache(None)
def _form(template: str) -> tuple[tuple[str, ...], int, int, tuple[str, ...]]:
    """The texts of a template, their size and traits, and the names of its holes, if some have one."""
    texts, names = [""], []
    for text, name, spec, _ in Formatter().parse(template):
        assert not spec, template
        texts[-1] += text
        if name is not None:
            names.append(name)
            texts.append("")
    return tuple(texts), sum(map(len, texts)), _traits_of(tuple(texts)), tuple(names) if any(names) else ()


@lru_cache(1024)
def _call_form(function: str, count: int) -> tuple[tuple[str, ...], int, int]:
    texts = (f"{function}(", *(", ",) * (count - 1), ")") if count else (f"{function}()",)
    return texts, sum(map(len, texts)), _traits_of(texts)


@lru_cache(1024)
def _traits_of(texts: tuple[str, ...]) -> int:
    traits = 0
    for word, meant in _TRAITS:
        if any(word in text for text in texts):
            traits |= meant
    return traits


EMPTY = leaf("")
