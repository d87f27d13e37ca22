"""A deduplication token that answers for its rows: a block under it is a repeat only if it holds the same rows.

A token alone says "this is the block that you have, look no further", and other rows under it are dropped in silence.
A writer that cannot be sure to repeat itself claims its token: the first block leaves ``blocks/token_<digest>`` in the
multi that commits its first part, with that part's name (whose fate it shares: the window, drops) and, on a second
line, what the block is. Another block under the token is refused with 389 before anything of it is stored.

The claim is of the whole block, over all partitions: rows that moved between blocks of other tokens must not find
each partition's piece unchanged, or missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordination.keeper import Create, Keeper
from coordination.paths import TablePaths
from parts.errors import ConflictError


@dataclass(frozen=True, slots=True)
class TokenClaim:
    """``digest`` identifies the token, ``content`` the rows."""

    digest: str
    content: str

    def path(self, table: TablePaths) -> str:
        return table.block(f"token_{self.digest}")

    def create(self, table: TablePaths, part: str) -> Create:
        return Create(self.path(table), f"{part}\n{self.content}".encode())

    def is_new(self, keeper: Keeper, table: TablePaths) -> bool:
        """Raises 389 (INSERT_WAS_DEDUPLICATED) when the token was claimed by other rows."""
        answer = keeper.get_many([self.path(table)])[0]
        if answer is not None:
            part, _, content = answer[0].decode(errors="replace").partition("\n")
            self.require_same(content, f" (part {part})")
        return answer is None

    def require_same(self, content: str, where: str = "") -> None:
        if content != self.content:
            raise ConflictError(
                "INSERT_WAS_DEDUPLICATED",
                f"Another block was inserted under this insert_deduplication_token before{where}, with other rows: "
                f"{content!r}, now {self.content!r}. Nothing of this block is stored",
            )
