"""The mutations of a table, and what they ask of its parts. Pure: it decides, and reads nothing.

A mutation has a block number in every partition that it is about (:mod:`coordination.merges_mutations.mutation_nodes`
takes them). It changes the rows of blocks with lower numbers, and no others; so of every part it follows from its name
whether the mutation has been applied to it (``PartName.data_version``). Ids and numbers grow together: whoever knows of
a mutation knows, or knew, of all that have lower numbers.

Invariants:
- Parts of which one lacks a mutation that the other has, or was inserted behind, are never merged (:meth:`version`).
- What has been finished stays so: no block below a mutation's number comes any more once none is being committed. Only
  the loss of a mutated part undoes it: an older version of the part is there again (:meth:`finished_before_loss`).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class MutationEntry:
    """The content of a mutation's node. ``mutation_id`` is the number in the node's name, as text; ``text`` what is to
    be done (``sql.mutations.mutation``)."""

    mutation_id: str
    create_time: float
    source_replica: str
    text: str
    numbers: Mapping[str, int]
    """Partition → its block number there."""
    metadata_version: int = 0
    """Of the definition that the commands were checked against."""

    def to_bytes(self) -> bytes:
        document = {
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
        try:
            document = json.loads(data)
            if document["version"] != FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
            return cls(
                mutation_id,
                float(document["create_time"]),
                str(document["source_replica"]),
                str(document["text"]),
                {str(partition_id): int(number) for partition_id, number in document["block_numbers"].items()},
                int(document["metadata_version"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"Cannot read mutation {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error

    def must_change(self, part: PartName) -> bool:
        """Whether rows of the part are to be changed by it, and have not been."""
        return part.data_version < self.numbers.get(part.partition_id, 0)

    def parts_to_do(self, parts: Iterable[PartName]) -> list[PartName]:
        return [part for part in parts if self.must_change(part)]

    def is_ahead_of_any(self, oldest: Mapping[str, int]) -> bool:
        """``oldest``: partition → the least version of data that a part there has (:func:`oldest_versions`)."""
        return any(version < self.numbers.get(partition_id, 0) for partition_id, version in oldest.items())

    def waits_for_blocks(self, committing: Mapping[str, Sequence[int]]) -> bool:
        """Whether a block that it has to change may still come."""
        return any(
            number < own for partition_id, own in self.numbers.items() for number in committing.get(partition_id, ())
        )


@dataclass(frozen=True)
class MutationSet:
    """Those that are there, in the order of their ids."""

    mutations: tuple[MutationEntry, ...] = ()

    @cached_property
    def _by_id(self) -> dict[str, MutationEntry]:
        return {mutation.mutation_id: mutation for mutation in self.mutations}

    @cached_property
    def _by_partition(self) -> dict[str, tuple[list[int], list[MutationEntry]]]:
        """The numbers, and whose they are."""
        found: dict[str, tuple[list[int], list[MutationEntry]]] = {}
        for mutation in self.mutations:
            for partition_id, number in mutation.numbers.items():
                numbers, owners = found.setdefault(partition_id, ([], []))
                numbers.append(number)
                owners.append(mutation)
        return found

    def get(self, mutation_id: str) -> MutationEntry | None:
        return self._by_id.get(mutation_id)

    def version(self, part: PartName) -> int:
        """The number of the last mutation that the part's rows have been through, or come behind. Parts of different
        ones must not be merged."""
        numbers, _ = self._by_partition.get(part.partition_id, ([], []))
        index = bisect_right(numbers, part.data_version)
        return numbers[index - 1] if index else 0

    def next_mutations(self, part: PartName, metadata_version: int, at_most: int) -> list[MutationEntry]:
        """What is to be applied to the part now, in one go and in this order. A mutation that was checked against a
        later definition than ``metadata_version`` waits until it is known here, and those behind it wait too."""
        numbers, owners = self._by_partition.get(part.partition_id, ([], []))
        ahead = owners[bisect_right(numbers, part.data_version) :][:at_most]
        known = next((i for i, m in enumerate(ahead) if m.metadata_version > metadata_version), len(ahead))
        return ahead[:known]

    def between(self, source: PartName, result: PartName) -> list[MutationEntry]:
        """Those that are there of what makes ``result`` of ``source``."""
        numbers, owners = self._by_partition.get(source.partition_id, ([], []))
        return owners[bisect_right(numbers, source.data_version) : bisect_right(numbers, result.data_version)]

    def is_forgotten_between(self, source: PartName, result: PartName) -> bool:
        """Whether mutations that made ``result`` of ``source`` are gone, or may be. Old ones go first, so the one
        before the first that is there tells."""
        if result.data_version <= source.data_version:
            return False
        there = self.between(source, result)
        if not there or there[-1].numbers[source.partition_id] != result.data_version:
            return True
        before = int(there[0].mutation_id) - 1
        return before >= 0 and self.get(f"{before:010d}") is None

    def finished_before_loss(self, finished: str, parts: Sequence[PartName]) -> str:
        """``finished``, or the last mutation before the first one that some part lacks again."""
        done, oldest = "", oldest_versions(parts)
        for mutation in self.mutations:
            if mutation.mutation_id > finished:
                break
            if mutation.is_ahead_of_any(oldest):
                return done
            done = mutation.mutation_id
        return finished

    def last_numbers(self, finished: str) -> dict[str, int]:
        """Where mutations behind ``finished`` have something to do: the number of the last of them."""
        return {p: number for mutation in self.unfinished(finished) for p, number in mutation.numbers.items()}

    def unfinished(self, finished: str) -> list[MutationEntry]:
        """Behind ``finished``, the last that this replica is done with ("" for none)."""
        return [mutation for mutation in self.mutations if mutation.mutation_id > finished]

    def finished_up_to(self, finished: str, committing: Mapping[str, Sequence[int]], parts: Sequence[PartName]) -> str:
        """``finished``, or a later one: the last before one that still waits for blocks or has parts to change.

        ``committing`` must have been read before the log was pulled to which ``parts`` are true: all that are active
        here, or are to come.
        """
        oldest = oldest_versions(parts)
        for mutation in self.unfinished(finished):
            if mutation.waits_for_blocks(committing) or mutation.is_ahead_of_any(oldest):
                break
            finished = mutation.mutation_id
        return finished


def oldest_versions(parts: Iterable[PartName]) -> dict[str, int]:
    """Partition → the least version of data among its parts."""
    oldest: dict[str, int] = {}
    for part in parts:
        oldest[part.partition_id] = min(part.data_version, oldest.get(part.partition_id, part.data_version))
    return oldest


def mutated_part_name(source: PartName, mutations: Sequence[MutationEntry]) -> PartName:
    """``mutations`` in the order of their numbers, at least one."""
    number = mutations[-1].numbers[source.partition_id]
    assert number > source.data_version
    return PartName(source.partition_id, source.min_block, source.max_block, source.level, number)


def select_removable_mutations(ids: Sequence[str], pointers: Iterable[str], keep: int) -> list[str]:
    """Those that every replica whose pointer is given is done with, but for the last ``keep``."""
    everywhere = min(pointers, default="")
    finished = [id_ for id_ in ids if id_ <= everywhere]
    return finished[: max(0, len(finished) - keep)]
