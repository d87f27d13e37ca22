"""The mutations of a table, and which parts they still have to change. No I/O.

A mutation has a block number in every partition that it changes (:mod:`coordination.merges_mutations.mutation_nodes`
takes them). It changes the rows of blocks with lower numbers, and no others. So a part's name tells whether the
mutation has been applied to it (``PartName.data_version``). Ids and numbers grow together: a replica that knows a
mutation knows, or knew, all with lower numbers.

Invariants:

- Two parts are never merged if a mutation applies to one of them only (:meth:`MutationSet.find_version`).
- A finished mutation stays finished: once no block below its number is being committed, none comes any more. Only the
  loss of a mutated part undoes it, when an older version of the part is restored
  (:meth:`MutationSet.find_finished_before_loss`).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class MutationEntry:
    """The content of a mutation's node. ``mutation_id`` is the number in the node's name, as text.

    ``text`` holds the commands (``sql.mutations.mutation``).
    """

    mutation_id: str
    create_time: float
    source_replica: str
    text: str
    numbers: Mapping[str, int]
    """Partition → its block number there."""
    metadata_version: int = 0
    """Version of the definition that the commands were checked against."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    """Other keys, such as the cut of a group that a link's mutation belongs to."""

    def to_bytes(self) -> bytes:
        """Returns the node's content as JSON."""
        document = {
            **dict(self.extra),
            "version": FORMAT_VERSION,
            "create_time": self.create_time,
            "source_replica": self.source_replica,
            "text": self.text,
            "block_numbers": dict(sorted(self.numbers.items())),
            "metadata_version": self.metadata_version,
        }
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, mutation_id: str, data: bytes) -> MutationEntry:
        """Parses a mutation's node. Raises ``CorruptionError``."""
        try:
            rest = dict(json.loads(data))
            if (version := rest.pop("version")) != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            return cls(
                mutation_id,
                float(rest.pop("create_time")),
                str(rest.pop("source_replica")),
                str(rest.pop("text")),
                {str(partition_id): int(number) for partition_id, number in rest.pop("block_numbers").items()},
                int(rest.pop("metadata_version")),
                tuple(rest.items()),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"Cannot read mutation {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error

    def must_change(self, part: PartName) -> bool:
        """Tells whether the mutation applies to the part and has not been applied yet."""
        return part.data_version < self.numbers.get(part.partition_id, 0)

    def list_parts_to_change(self, parts: Iterable[PartName]) -> list[PartName]:
        """Lists the parts that it must still change."""
        return [part for part in parts if self.must_change(part)]

    def is_ahead_of_any(self, oldest: Mapping[str, int]) -> bool:
        """Tells whether any part must still be changed.

        ``oldest``: partition → the least data version of its parts (:func:`oldest_versions`).
        """
        return any(version < self.numbers.get(partition_id, 0) for partition_id, version in oldest.items())

    def waits_for_blocks(self, committing: Mapping[str, Sequence[int]]) -> bool:
        """Tells whether a block that it must change may still be committed."""
        return any(
            number < own for partition_id, own in self.numbers.items() for number in committing.get(partition_id, ())
        )


@dataclass(frozen=True)
class MutationSet:
    """The existing mutations, in the order of their ids."""

    mutations: tuple[MutationEntry, ...] = ()

    @cached_property
    def _by_id(self) -> dict[str, MutationEntry]:
        return {mutation.mutation_id: mutation for mutation in self.mutations}

    @cached_property
    def _by_partition(self) -> dict[str, tuple[list[int], list[MutationEntry]]]:
        """The numbers and their mutations, by partition."""
        found: dict[str, tuple[list[int], list[MutationEntry]]] = {}
        for mutation in self.mutations:
            for partition_id, number in mutation.numbers.items():
                numbers, owners = found.setdefault(partition_id, ([], []))
                numbers.append(number)
                owners.append(mutation)
        return found

    def get(self, mutation_id: str) -> MutationEntry | None:
        """Returns the mutation of this id, or ``None``."""
        return self._by_id.get(mutation_id)

    def find_version(self, part: PartName) -> int:
        """Returns the number of the last mutation that the part's rows went through or were inserted after.

        Parts of different versions must not be merged.
        """
        numbers, _ = self._by_partition.get(part.partition_id, ([], []))
        index = bisect_right(numbers, part.data_version)
        return numbers[index - 1] if index else 0

    def list_next_mutations(self, part: PartName, metadata_version: int, at_most: int) -> list[MutationEntry]:
        """Returns the mutations to apply to the part now, in one pass and in this order.

        A mutation that was checked against a later definition than ``metadata_version`` waits until that is known here,
        and those behind it wait too.
        """
        numbers, owners = self._by_partition.get(part.partition_id, ([], []))
        ahead = owners[bisect_right(numbers, part.data_version) :][:at_most]
        known = next((i for i, m in enumerate(ahead) if m.metadata_version > metadata_version), len(ahead))
        return ahead[:known]

    def between(self, source: PartName, result: PartName) -> list[MutationEntry]:
        """Lists the existing mutations that lead from ``source`` to ``result``."""
        numbers, owners = self._by_partition.get(source.partition_id, ([], []))
        return owners[bisect_right(numbers, source.data_version) : bisect_right(numbers, result.data_version)]

    def is_forgotten_between(self, source: PartName, result: PartName) -> bool:
        """Tells whether mutations between ``source`` and ``result`` are removed, or may be.

        The oldest are removed first, so it is enough that the one before the first existing one exists.
        """
        if result.data_version <= source.data_version:
            return False
        there = self.between(source, result)
        if not there or there[-1].numbers[source.partition_id] != result.data_version:
            return True
        before = int(there[0].mutation_id) - 1
        return before >= 0 and self.get(f"{before:010d}") is None

    def find_finished_before_loss(self, finished: str, parts: Sequence[PartName]) -> str:
        """Returns ``finished``, or the last mutation before the first one that some part lacks again."""
        done, oldest = "", oldest_versions(parts)
        for mutation in self.mutations:
            if mutation.mutation_id > finished:
                break
            if mutation.is_ahead_of_any(oldest):
                return done
            done = mutation.mutation_id
        return finished

    def list_last_numbers(self, finished: str) -> dict[str, int]:
        """Returns by partition the number of its last mutation behind ``finished``."""
        return {p: number for mutation in self.unfinished(finished) for p, number in mutation.numbers.items()}

    def unfinished(self, finished: str) -> list[MutationEntry]:
        """Lists the mutations behind ``finished``, the last finished one ("" for none)."""
        return [mutation for mutation in self.mutations if mutation.mutation_id > finished]

    def find_finished_up_to(
        self, finished: str, committing: Mapping[str, Sequence[int]], parts: Sequence[PartName]
    ) -> str:
        """Returns ``finished`` or a later id, up to the first that waits for blocks or has parts to change.

        ``committing`` must have been read before the log was pulled. ``parts``: all parts that are active here or to
        come after that pull.
        """
        oldest = oldest_versions(parts)
        for mutation in self.unfinished(finished):
            if mutation.waits_for_blocks(committing) or mutation.is_ahead_of_any(oldest):
                break
            finished = mutation.mutation_id
        return finished


def oldest_versions(parts: Iterable[PartName]) -> dict[str, int]:
    """Returns by partition the least data version of its parts."""
    oldest: dict[str, int] = {}
    for part in parts:
        oldest[part.partition_id] = min(part.data_version, oldest.get(part.partition_id, part.data_version))
    return oldest


def mutated_part_name(source: PartName, mutations: Sequence[MutationEntry]) -> PartName:
    """Returns the name of the result. ``mutations`` are in the order of their numbers, at least one."""
    number = mutations[-1].numbers[source.partition_id]
    assert number > source.data_version
    return PartName(source.partition_id, source.min_block, source.max_block, source.level, number)


def select_removable_mutations(ids: Sequence[str], pointers: Iterable[str], keep: int) -> list[str]:
    """Selects the ids that every replica of the pointers has finished, except the last ``keep``."""
    everywhere = min(pointers, default="")
    finished = [id_ for id_ in ids if id_ <= everywhere]
    return finished[: max(0, len(finished) - keep)]
