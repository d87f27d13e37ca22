"""Rewrites JSON lines in the shapes that pyarrow's reader accepts.

These values change:

==============================  ==============================================
a row that is an array          an object of the columns
Map: ``{"a": 1}``               ``[{"0":"a","1":1}]``
Tuple: ``[1, "x"]``             an object of its names, or of ``"0"``, ``"1"`` …
==============================  ==============================================

What is not in this simple form, or no JSON, is left to the exact reader.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, TupleType
from sql.formats.json.structural_tokens import COMMA, OPEN_LIST, OPEN_OBJECT, NotPlainError, Replacements, Tokens
from sql.formats.streams.row_chunks import CHUNK_BYTES

Fields = Sequence[tuple[str, DataType | None]]
_MOST_BYTES = 4 * CHUNK_BYTES
"""Bytes of a chunk that may be rewritten; that takes several times its memory."""


def needs_rewriting(type_: DataType | None) -> bool:
    """Returns whether values of the type are rewritten. (Named tuples are objects in most data.)"""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return needs_rewriting(inner)
        case TupleType(elements):
            return not type_.is_named or any(needs_rewriting(inner) for _, inner in elements)
    return isinstance(type_, MapType)


def _count_levels(type_: DataType | None) -> int:
    """Returns how many brackets deep a value of the type is examined."""
    if not needs_rewriting(type_):
        return 0
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return _count_levels(inner)
        case ArrayType(inner):
            return 1 + _count_levels(inner)
        case MapType(_, value):
            return 1 + _count_levels(value)
        case TupleType(elements):
            return 1 + max((_count_levels(inner) for _, inner in elements), default=0)
    return 0


def rewrite_as_objects(chunk: bytes, fields: Fields, *, is_compact: bool) -> bytes | None:
    """Rewrites the columns' values; returns ``None`` for data that are not plain.

    Objects may have commas between them, and blank lines before the first: the result has neither. With ``is_compact``
    rows are arrays of all ``fields``. A field without type is a column that nobody wants.
    """
    if len(chunk) > _MOST_BYTES:
        return None
    try:
        tokens = _tokenize(
            chunk, 1 + max(_count_levels(type_) for _, type_ in fields), OPEN_LIST if is_compact else OPEN_OBJECT
        )
        shapes = _ShapeRewriter(tokens)
        shapes.fields(tokens.rows, fields)
    except NotPlainError:
        return None
    return shapes.out.result().lstrip()


def rows_with_keys(chunk: bytes, keys: Sequence[str]) -> list[np.ndarray] | None:
    """Returns for each key a mask of the rows (objects) that have it.

    ``None`` for data that are not plain.
    """
    if len(chunk) > _MOST_BYTES:
        return None
    try:
        tokens = _tokenize(chunk, 1, OPEN_OBJECT)
        counts, colons, _ = tokens.pairs(tokens.rows)
        row_of = np.repeat(np.arange(len(tokens.rows)), (counts + 1) // 2)
        found = [row_of[tokens.has_key(colons, json.dumps(key, ensure_ascii=False).encode())] for key in keys]
    except NotPlainError:
        return None
    return [np.bincount(rows, minlength=len(tokens.rows)) > 0 for rows in found]


def has_other_case(chunk: bytes, names: Sequence[str]) -> bool:
    """Returns whether a row's key may be one of the names in another case.

    It is ``True`` for data that are not plain.
    """
    if len(chunk) > _MOST_BYTES:
        return True
    keys = [json.dumps(name, ensure_ascii=False).encode() for name in names]
    try:
        tokens = _tokenize(chunk, 1, OPEN_OBJECT)
        _, colons, _ = tokens.pairs(tokens.rows)
        exact = sum(np.count_nonzero(tokens.has_key(colons, key)) for key in keys)
        tokens.data = np.frombuffer(chunk.lower(), np.uint8)
        of_any_case = sum(np.count_nonzero(tokens.has_key(colons, key)) for key in {key.lower() for key in keys})
    except NotPlainError:
        return True
    return of_any_case != exact


def _tokenize(chunk: bytes, levels: int, row_kind: int) -> Tokens:
    """Tokenizes rows of this kind. Raises :class:`NotPlainError` if more than blanks is around them."""
    tokens = Tokens(chunk, levels, is_array=row_kind == OPEN_OBJECT)
    if (tokens.kinds[tokens.rows] != row_kind).any():
        raise NotPlainError
    begins, ends = tokens.places[tokens.rows], tokens.places[tokens.find_closers(tokens.rows)] + 1
    tokens.check_blank(np.append(0, ends), np.append(begins, len(chunk)))
    return tokens


class _ShapeRewriter:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.out = Replacements(tokens)

    def value(self, containers: np.ndarray, type_: DataType | None) -> None:
        """Rewrites containers that are values of the type."""
        if not len(containers) or not needs_rewriting(type_):
            return
        match type_:
            case NullableType(inner) | LowCardinalityType(inner):
                self.value(containers, inner)
            case ArrayType(inner):
                _, members = self.tokens.members(containers)
                self.value(self.tokens.behind(np.append(containers, members)), inner)
            case MapType():
                self._map(containers, type_)
            case TupleType(elements):
                fields = [(name or str(place), inner) for place, (name, inner) in enumerate(elements)]
                if not type_.is_named and (self.tokens.kinds[containers] != OPEN_LIST).any():
                    raise NotPlainError
                self.fields(containers, fields)

    def _map(self, containers: np.ndarray, type_: MapType) -> None:
        counts, colons, commas = self.tokens.pairs(containers)
        closers, is_empty = self.tokens.find_closers(containers), counts == 0
        places = self.tokens.places
        self.tokens.check_blank(places[containers[is_empty]] + 1, places[closers[is_empty]])
        self.out.put(containers[is_empty], "[")
        self.out.put(closers[is_empty], "]")
        self.out.put(containers[~is_empty], '[{"0":')
        self.out.put(closers[~is_empty], "}]")
        self.out.put(colons, ',"1":')
        self.out.put(commas, '},{"0":')
        self.value(self.tokens.behind(colons), type_.value)

    def fields(self, containers: np.ndarray, fields: Fields) -> None:
        """Rewrites containers that are rows or tuples with these fields."""
        is_list = self.tokens.kinds[containers] == OPEN_LIST
        if is_list.any():
            self._list_of_fields(containers[is_list], fields)
        if not is_list.all():
            self._object_of_fields(containers[~is_list], fields)

    def _list_of_fields(self, containers: np.ndarray, fields: Fields) -> None:
        counts, commas = self.tokens.members(containers)
        if (counts != len(fields) - 1).any() or (self.tokens.kinds[commas] != COMMA).any():
            raise NotPlainError
        keys = [json.dumps(name, ensure_ascii=False) + ":" for name, _ in fields]
        self.out.put(containers, "{" + keys[0])
        if len(commas):
            self.out.put(commas, *("," + key for key in keys[1:]))
        self.out.put(self.tokens.find_closers(containers), "}")
        marks = np.column_stack([containers, commas.reshape(len(containers), len(fields) - 1)])
        for place, (_, inner) in enumerate(fields):
            if needs_rewriting(inner):
                self.value(self.tokens.behind(marks[:, place]), inner)

    def _object_of_fields(self, containers: np.ndarray, fields: Fields) -> None:
        _, colons, _ = self.tokens.pairs(containers)
        for name, inner in fields:
            if needs_rewriting(inner):
                key = json.dumps(name, ensure_ascii=False).encode()
                self.value(self.tokens.behind(colons[self.tokens.has_key(colons, key)]), inner)
