"""Parses the tokenizers of text indexes and of token functions."""

from __future__ import annotations

from collections.abc import Sequence

from parts.common.errors import UserError
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node
from sql.grammar.tokens import not_implemented

Arguments = tuple[float | str, ...]
"""A tokenizer's name and parameters, as ``parts.skip_indexes.tokenizers`` takes them."""
_DEFAULT_NGRAM = 3


def parse_tokenizer(node: Node) -> Arguments:
    """Parses ``splitByNonAlpha``, ``'splitByNonAlpha'``, ``ngrams(3)``, … Raises ``UserError`` 36, 48."""
    match node:
        case Identifier((name,)):
            values: Sequence[Node] = ()
        case Literal(str() as name):
            values = ()
        case Function(name, values):
            pass
        case _:
            raise UserError("BAD_ARGUMENTS", "A tokenizer is a name, perhaps with arguments")
    match name, values:
        case ("splitByNonAlpha" | "array", ()):
            return (name,)
        case ("ngrams", ()):
            return (name, _DEFAULT_NGRAM)
        case ("ngrams", (Literal(int() as length),)):
            if length < 1:
                message = (
                    f"Incorrect parameter of tokenizer 'ngrams': ngram length must be at least 1, but got {length}"
                )
                raise UserError("BAD_ARGUMENTS", message)
            return (name, length)
        case ("splitByString", ()):
            return (name, " ")
        case ("splitByString", (separators,)):
            texts = [text.value for text in _array_members(separators) if isinstance(text, Literal)]
            if not texts or not all(isinstance(text, str) and text for text in texts):
                message = (
                    "Incorrect parameter of tokenizer 'splitByString': separators must be texts that are not empty"
                )
                raise UserError("BAD_ARGUMENTS", message)
            return (name, *map(str, texts))
        case ("sparseGrams" | "asciiCJK", _):
            raise not_implemented(f"The tokenizer {name} (there are: splitByNonAlpha, splitByString, ngrams, array)")
        case ("splitByNonAlpha" | "array" | "ngrams" | "splitByString", _):
            raise UserError("BAD_ARGUMENTS", f"Incorrect parameters of tokenizer '{name}'")
    raise UserError("BAD_ARGUMENTS", f"Unknown tokenizer: '{name}'")


def _array_members(node: Node) -> Sequence[Node]:
    return node.args if isinstance(node, Function) and node.name == "array" else ()
