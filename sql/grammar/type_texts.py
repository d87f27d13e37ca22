"""Reads the text of a data type in a statement."""

from __future__ import annotations

from sql.grammar.tokens import TokenStream


def type_text(stream: TokenStream) -> str:
    """Returns a data type's text: a word with an optional group in brackets.

    It may have two words: ``DOUBLE PRECISION``, ``INT(10) UNSIGNED``.
    """
    start = stream.peek().start
    word = stream.identifier("data type").upper()
    if word == "DOUBLE":
        stream.accept("PRECISION")
    if stream.at("("):
        stream.skip_group()
    end = stream.position
    if "INT" in word and (stream.accept("UNSIGNED") or stream.accept("SIGNED")):
        end = stream.position
    return stream.text[start:end]
