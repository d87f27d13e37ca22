"""Draws rows of parts: the conditions of a sample, computed at once for a batch of one part.

A row's draw is ``intHash64(bitXor(bitXor(_part_offset, cityHash64(_part)), toUInt64(seed)))``. A sample has the rows
whose draw is below a limit, or at least one (``RowSample.scala``). DuckDB would hash the part's name for every row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parts.read.row_filters import ReadValues
from parts.table.row_exists_column import PART_OFFSET
from sql.functions.hashes.city_hash import city_hash_64
from sql.functions.hashes.integer_hashes import int_hash_64
from sql.functions.hashes.row_words import rows_of_texts
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node

PART = "_part"


@dataclass(frozen=True)
class DrawnRows:
    """Finds the rows whose draw is below the limit, or at least it. Implements ``RowFilter``."""

    seed: int
    limit: int
    is_below: bool
    columns: frozenset[str] = frozenset({PART, PART_OFFSET})
    is_exact: bool = True

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns the mask of the rows, which are of one part."""
        if not rows:
            return np.zeros(0, bool)
        ((of_part,),) = (city_hash_64(hashed) for hashed in rows_of_texts(read(PART).slice(0, 1)))
        places = read(PART_OFFSET).to_numpy()
        draws = int_hash_64(places ^ (of_part ^ np.uint64(self.seed)))
        mask: np.ndarray = draws < np.uint64(self.limit) if self.is_below else draws >= np.uint64(self.limit)
        return mask


def find_draw(node: Node) -> DrawnRows | None:
    """Returns the filter of a sample's condition; ``None`` for another one."""
    match node:
        case Function(
            "less" | "greaterOrEquals" as name,
            (
                Function(
                    "intHash64",
                    (
                        Function(
                            "bitXor",
                            (
                                Function(
                                    "bitXor",
                                    (
                                        Identifier((offset,)),
                                        Function("cityHash64", (Identifier((part,)),)),
                                    ),
                                ),
                                Function("toUInt64", (Literal(int(seed)),)),
                            ),
                        ),
                    ),
                ),
                Literal(int(limit)),
            ),
        ) if (offset, part) == (PART_OFFSET, PART) and 0 <= seed < 1 << 64 and 0 <= limit < 1 << 64:
            return DrawnRows(seed, limit, name == "less")
    return None
