"""Deduplication tokens that answer for their rows, and jobs that are closed when all their tokens are there.

A token alone says "this is the block that you have, look no further", and other rows under it are dropped in silence.
A writer that cannot be sure to repeat itself claims its token: the first INSERT under it leaves
``blocks/token_<digest>`` with what it holds, in the multi that commits its first part. Another one under the token is
refused with 389 before anything of it is stored. The claim is of the whole INSERT, over all blocks and partitions: rows
that moved to other tokens must not find each piece unchanged, or missing.

Tokens may belong to a *job*: ``blocks/token_<digest of the job>_<digest>``. A job is repeated rightly only with the
very same tokens, and rows that moved to a token that was never claimed would be stored twice. So a writer that is done
closes its job with the number of its tokens: ``…_end``. More claims than that are of an earlier run that cut its rows
otherwise (389). Once the job is closed no other token can be claimed.

Claims do not share the fate of parts: what a drop or a failed quorum takes away may come again under its token, and no
other rows, for other parts of the INSERT may have stayed. TRUNCATE and the deduplication window free them
(``block_ids``, guarded by ``blocks`` itself).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import xxhash

from coordination.keeper import Create, Keeper, KeeperConnectionLoss, MultiFailed, NodeExists, Op, check_not_exists
from coordination.paths import TablePaths
from parts.errors import ConflictError

_PREFIX = "token_"
_END = "end"
_ATTEMPTS = 20


def is_claim(name: str) -> bool:
    """Of a child of ``blocks``; the ids of blocks begin with their partition's."""
    return name.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class TokenClaim:
    """``name`` identifies the token among the children of ``blocks``, ``content`` what is inserted under it.

    Make it with :func:`claim_rows` or :func:`close_job`.
    """

    name: str
    content: str
    end: str = ""
    """The name that closes the token's job, if it has one."""
    job_size: int | None = None
    """Of the claim that closes a job: how many tokens the job has."""

    def paths(self, table: TablePaths) -> tuple[str, ...]:
        return tuple(table.block(name) for name in (self.name, self.end) if name)

    def create_ops(self, table: TablePaths) -> list[Op]:
        """Fail with ``NodeExists`` on one of ``paths`` when somebody came first."""
        ops: list[Op] = list(check_not_exists(table.block(self.end))) if self.end else []
        return [*ops, Create(table.block(self.name), self.content.encode())]

    def judge(self, claims: Mapping[str, str]) -> bool:
        """Whether the token is free, given what is known by name. Raises 389 (INSERT_WAS_DEDUPLICATED) when it was
        claimed by other rows, or its job was closed without it."""
        content = claims.get(self.name)
        if content is None and self.end in claims:
            raise _refused(
                f"The job of the insert_deduplication_token was closed before, with {claims[self.end]} and not this one"
            )
        if content is not None and content != self.content:
            what = "The job was closed" if self.job_size is not None else "Another block was inserted"
            raise _refused(
                f"{what} under this insert_deduplication_token before, with other rows: {content!r}, now "
                f"{self.content!r}"
            )
        return content is None

    def is_new(self, keeper: Keeper, table: TablePaths) -> bool:
        """See :meth:`judge`."""
        paths = self.paths(table)
        answers = zip(paths, keeper.get_many(paths), strict=True)
        prefix = len(table.block(""))
        return self.judge({path[prefix:]: answer[0].decode(errors="replace") for path, answer in answers if answer})

    def require_kept(self, is_new: bool) -> None:
        """For whoever finds rows that were inserted under the token already. Raises 389 when no claim tells which."""
        if is_new:
            raise _refused(
                "Rows were inserted under this insert_deduplication_token before, and nothing tells any more whether "
                "they are these (the deduplication window has passed, or it was not checked then)"
            )

    def require_whole_job(self, names: Iterable[str]) -> None:
        """For who closes a job, given what is claimed. Raises 389 when tokens were claimed that are not of it."""
        if self.job_size is None:
            return
        prefix = self.name.removesuffix(_END)
        claimed = sum(name.startswith(prefix) and name != self.name for name in names)
        if claimed > self.job_size:
            raise ConflictError(
                "INSERT_WAS_DEDUPLICATED",
                f"The job has {_tokens(self.job_size)}, and {claimed} of it were claimed: some by an earlier run that "
                "cut its rows otherwise, and whose rows are stored too",
            )


def claim_rows(token: str, job: str, content: str) -> TokenClaim:
    """``job`` is empty for a token of its own."""
    if not job:
        return TokenClaim(f"{_PREFIX}{_digest(token)}", content)
    prefix = f"{_PREFIX}{_digest(job)}_"
    return TokenClaim(f"{prefix}{_digest(token)}", content, f"{prefix}{_END}")


def close_job(job: str, size: int) -> TokenClaim:
    return TokenClaim(f"{_PREFIX}{_digest(job)}_{_END}", _tokens(size), job_size=size)


def claim_alone(keeper: Keeper, table: TablePaths, claim: TokenClaim) -> None:
    """For an INSERT without rows. Raises 389; repeatable."""
    for _ in range(_ATTEMPTS):
        try:
            if claim.is_new(keeper, table):
                keeper.multi(claim.create_ops(table))
            break
        except KeeperConnectionLoss:
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists):
                raise error.cause from error
    else:
        raise ConflictError("KEEPER_EXCEPTION", f"Could not claim the token in {_ATTEMPTS} attempts; try again")
    if claim.job_size is not None:
        keeper.sync(table.blocks)
        claim.require_whole_job(keeper.children(table.blocks))


def _tokens(count: int) -> str:
    return f"{count} {'token' if count == 1 else 'tokens'}"


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())


def _refused(reason: str) -> ConflictError:
    return ConflictError("INSERT_WAS_DEDUPLICATED", f"{reason}. Nothing of this block is stored")
