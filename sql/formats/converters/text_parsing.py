"""Parses texts to values: one Arrow cast a column, and a search for the first bad value if it fails.

``parse_texts`` takes an array of unescaped texts (nulls stay nulls) and returns an array in storage type. The types'
parsers (:mod:`scalars`) first try the cast that Arrow does natively. Only when that fails are the texts normalised
(blanks, ``+5``, excess digits of a fraction, unix seconds) and tried again, and then the first bad row is named.

One difference to ClickHouse is on purpose: a value out of the type's range is refused (321), not wrapped around or
clamped.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DataType, LowCardinalityType, NullableType, StringType, strip_nullable
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.converters.value_checks import fail_first
from sql.formats.format_options import BadValueError, FormatOptions, parse_error
from sql.grammar.text_escapes import may_contain


def parse_texts(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Converts texts to storage values. Raises :class:`BadValueError`.

    :mod:`literal_parsing` handles composite types.
    """
    if isinstance(type_, NullableType):
        return parse_texts(texts, type_.inner, options)
    if isinstance(type_, LowCardinalityType):
        return _low_cardinality(texts, type_, options)
    format_ = scalar_format(type_)
    assert format_ is not None, type_
    return format_.parse(texts, type_, options)


def refuse_blanks(texts: pa.Array, type_: DataType) -> None:
    """Raises :class:`BadValueError` for a number or date with a blank around it.

    CSV alone takes it.
    """
    format_ = scalar_format(strip_nullable(type_))
    refuses = format_ is not None and format_.refuses_blanks
    if refuses and (may_contain(texts, " ") or may_contain(texts, "\t")):
        bad = pc.match_substring_regex(texts, r"^[ \t]|[ \t]$")
        fail_first(texts, bad, lambda index, text: parse_error(index, text, type_))


def _low_cardinality(texts: pa.Array, type_: LowCardinalityType, options: FormatOptions) -> pa.Array:
    encoded = pc.dictionary_encode(texts)
    try:
        values = parse_texts(encoded.dictionary, type_.inner, options)
    except BadValueError as error:
        raise error.with_index(int(pc.index(encoded.indices, pa.scalar(error.index, pa.int32())).as_py())) from None
    if isinstance(type_.inner, StringType) or isinstance(getattr(type_.inner, "inner", None), StringType):
        return pa.DictionaryArray.from_arrays(encoded.indices, values)
    # Two texts may be one value ("1" and "01"): a dictionary holds each value once.
    again = pc.dictionary_encode(values)
    return pa.DictionaryArray.from_arrays(pc.take(again.indices, encoded.indices), again.dictionary)
