"""Where the values of RowBinary rows stand: a tree of nodes for each column, filled with places, then read at once.

A row is as long as its strings and arrays say, so places are found one after the other. Columns of one width, strings
and arrays of one width, nullable or not, are followed inside ``itertools`` (see :func:`follow`): for each kind of value
one array tells for every byte where a value that began there would end. Only rows that hold arrays or maps of values
without a fixed width are walked value by value (:class:`Walk`). In both cases the values themselves are read at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, cycle, takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
)
from sql.formats.fixed_values import from_bytes, width_of
from sql.formats.native_read import list_array, map_array
from sql.formats.varint_texts import cut_texts
from sql.formats.varints import FAR, lengths_at, steps
from sql.formats.wire import valid_text

Places = np.ndarray


@dataclass
class Node:
    """Values of one type. ``places`` (of the walk): where each begins; for a list, how many elements each has; for a
    nullable, whether each is null."""

    type: DataType
    children: list[Node] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    @property
    def width(self) -> int | None:
        return width_of(self.type)

    @property
    def is_text(self) -> bool:
        return isinstance(self.type, StringType)


def node_of(type_: DataType) -> Node:
    match type_:
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return Node(type_, [node_of(inner)])
        case MapType(key, value):
            return Node(type_, [node_of(key), node_of(value)])
        case TupleType(elements):
            return Node(type_, [node_of(inner) for _, inner in elements])
    return Node(type_)


# Following simple columns ---------------------------------------------------------------------------------------------


def leaves(node: Node) -> list[Node] | None:
    """The nodes to follow one after the other; ``None`` where the type has to be walked."""
    if isinstance(node.type, TupleType):
        found: list[Node] = []
        for child in node.children:
            inner = leaves(child)
            if inner is None:
                return None
            found += inner
        return found
    return [node] if kind_of(node) is not None else None


def kind_of(node: Node) -> tuple[str, int] | None:
    """Kind and width of a value that can be followed."""
    if node.width is not None:
        return "fixed", node.width
    if node.is_text:
        return "text", 1
    if isinstance(node.type, LowCardinalityType):
        return kind_of(node.children[0])
    inner = kind_of(node.children[0]) if isinstance(node.type, (NullableType, ArrayType)) else None
    if inner is None:
        return None
    if isinstance(node.type, ArrayType):
        return ("list", inner[1]) if node.children[0].width is not None else None
    return {"fixed": "nullable", "text": "nullable text"}[inner[0]], inner[1]


def _ends(kind: tuple[str, int], buffer: np.ndarray, size: int) -> np.ndarray:
    name, width = kind
    if name == "fixed":
        return np.arange(width, size + width, dtype=np.int64)
    if name in ("text", "list"):
        return steps(buffer, size, width)
    behind = np.arange(1, size + 1, dtype=np.int64)
    if name == "nullable":
        return np.where(buffer[:size] == 0, behind + width, behind)
    texts = np.append(steps(buffer, size)[1:], FAR)
    return np.where(buffer[:size] == 0, texts, behind)


def follow(kinds: list[tuple[str, int]], buffer: np.ndarray, size: int) -> np.ndarray:
    """Where the fields of all whole rows begin, and where the last one ends: ``rows * len(kinds) + 1`` places."""
    known = list(dict.fromkeys(kinds))
    table = np.full((size + 1, len(known)), FAR, np.int64)
    for index, kind in enumerate(known):
        table[:size, index] = _ends(kind, buffer, size)
    inside = (size + 1).__gt__
    order = cycle([known.index(kind) for kind in kinds])
    places = np.fromiter(takewhile(inside, accumulate(order, table.item, initial=0)), np.int64)
    return places[: (len(places) - 1) // len(kinds) * len(kinds) + 1]


# Walking --------------------------------------------------------------------------------------------------------------


class IncompleteRowError(Exception):
    """The data end inside a row."""


class Walk:
    """Walks row by row and notes in the nodes where everything begins."""

    def __init__(self, nodes: list[Node], buffer: np.ndarray, size: int) -> None:
        self._nodes = nodes
        self._data = buffer[:size].tobytes()
        self._ends: memoryview = steps(buffer, size).data
        self._size = size
        self._lists: list[list[int]] = []
        self._forget(nodes)

    def _forget(self, nodes: list[Node]) -> None:
        for node in nodes:
            node.places = []
            self._lists.append(node.places)
            self._forget(node.children)

    def rows(self) -> tuple[int, int]:
        """How many whole rows there are, and where the last one ends."""
        rows = place = 0
        while place < self._size:
            lengths = [len(places) for places in self._lists]
            try:
                end = place
                for node in self._nodes:
                    end = self._value(node, end)
            except IncompleteRowError:
                for places, length in zip(self._lists, lengths, strict=True):
                    del places[length:]
                break
            rows, place = rows + 1, end
        return rows, place

    def _value(self, node: Node, place: int) -> int:
        if isinstance(node.type, (TupleType, LowCardinalityType)):
            for child in node.children:
                place = self._value(child, place)
            return place
        if place >= self._size:
            raise IncompleteRowError
        if isinstance(node.type, NullableType):
            is_null = self._data[place]
            node.places.append(is_null)
            return place + 1 if is_null else self._value(node.children[0], place + 1)
        if isinstance(node.type, (ArrayType, MapType)):
            return self._list(node, place)
        node.places.append(place)
        end = place + node.width if node.width is not None else self._ends[place]
        if end > self._size:
            raise IncompleteRowError
        return end

    def _list(self, node: Node, place: int) -> int:
        count = shift = 0
        while True:
            if place >= self._size or shift > 63:
                raise IncompleteRowError
            byte = self._data[place]
            count |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                break
        if count > self._size - place:  # an element has at least a byte
            raise IncompleteRowError
        node.places.append(count)
        for _ in range(count):
            for child in node.children:
                place = self._value(child, place)
        return place


# Reading --------------------------------------------------------------------------------------------------------------


def read_walked(node: Node, buffer: np.ndarray) -> pa.Array:
    """The values of a node that was walked. Raises :class:`BadValueError`."""
    match node.type:
        case TupleType():
            return pa.StructArray.from_arrays(
                [read_walked(child, buffer) for child in node.children], fields=list(node.type.arrow)
            )
        case LowCardinalityType():
            return pc.dictionary_encode(read_walked(node.children[0], buffer))
        case NullableType():
            is_null = np.array(node.places, np.uint8) != 0
            return _with_holes(read_walked(node.children[0], buffer), is_null)
        case ArrayType():
            return list_array(
                node.type, _offsets(np.array(node.places, np.int64)), read_walked(node.children[0], buffer)
            )
        case MapType():
            keys, values = (read_walked(child, buffer) for child in node.children)
            return map_array(node.type, _offsets(np.array(node.places, np.int64)), keys, values)
    return _leaf(node, np.array(node.places, np.int64), buffer)


def read_followed(node: Node, fields: dict[int, Places], buffer: np.ndarray) -> pa.Array:
    """The values of a node whose leaves were followed to the places of ``fields`` (by the leaf's ``id``)."""
    if isinstance(node.type, TupleType):
        children = [read_followed(child, fields, buffer) for child in node.children]
        return pa.StructArray.from_arrays(children, fields=list(node.type.arrow))
    return _followed(node, fields[id(node)], buffer)


def _followed(node: Node, places: Places, buffer: np.ndarray) -> pa.Array:
    match node.type:
        case LowCardinalityType():
            return pc.dictionary_encode(_followed(node.children[0], places, buffer))
        case NullableType():
            is_null = buffer[places] != 0
            return _with_holes(_followed(node.children[0], places[~is_null] + 1, buffer), is_null)
        case ArrayType():
            (inner,) = node.children
            counts, sizes = lengths_at(buffer, places)
            offsets = _offsets(counts)
            width = inner.width or 1
            within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1].astype(np.int64), counts)
            return list_array(
                node.type, offsets, _leaf(inner, np.repeat(places + sizes, counts) + within * width, buffer)
            )
    return _leaf(node, places, buffer)


def _leaf(node: Node, places: Places, buffer: np.ndarray) -> pa.Array:
    if node.is_text:
        return valid_text(cut_texts(buffer, places))
    width = node.width
    assert width is not None, node.type
    return from_bytes(buffer[places[:, None] + np.arange(width)], node.type)


def _offsets(counts: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _with_holes(values: pa.Array, is_null: np.ndarray) -> pa.Array:
    """``values`` are those that are not null."""
    if not is_null.any():
        return values
    return values.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
