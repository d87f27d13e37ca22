"""Mutations of the colony's table."""

from __future__ import annotations

from collections.abc import Callable

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.capabilities.table_mutations import MutationOptions, MutationSummary
from parts.common.errors import PandoError
from sql.grammar.statements.mutate_table import parse_stored_mutations
from sql.mutations.mutation import Mutation

MakeColony = Callable[..., SimulatedCluster]


def mutate(node: SimulatedNode, text: str, *, sync: int = 0, **options: object) -> str:
    """The id."""
    mutation = Mutation(parse_stored_mutations(text), "db")
    chosen = MutationOptions(sync=sync, **options)  # type: ignore[arg-type]
    return str(node.call(lambda table: table.mutations.add(mutation, chosen)))


def kill(node: SimulatedNode, id_: str) -> bool:
    return bool(node.call(lambda table: table.mutations.kill(id_)))


def shown(node: SimulatedNode) -> list[MutationSummary]:
    return list(node.table.mutations.shown())


def values(node: SimulatedNode) -> dict[int, str]:
    """Key → value; a key that is there twice is our bug."""
    with node.acting(), node.table.snapshot() as snapshot:
        batches = [batch for part in snapshot.parts for batch in part.read(["k", "v"])]
    pairs = [pair for batch in batches for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(sorted(pairs))


def code(action: Callable[[], object]) -> int:
    try:
        action()
    except PandoError as error:
        return error.code
    return 0
