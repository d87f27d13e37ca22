"""The effect of batches, for who asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.batches.batch_plan import BatchPlan
from engine.tables.capabilities.table_links import AppliedBatch


def add_applied(former: AppliedBatch, applied: AppliedBatch) -> AppliedBatch:
    """Returns the effect of both."""
    return AppliedBatch(
        True,
        former.rows + applied.rows,
        former.size_bytes + applied.size_bytes,
        former.blocks + applied.blocks,
        former.lost_rows + applied.lost_rows,
    )


def describe_applied(plans: Sequence[BatchPlan]) -> AppliedBatch:
    """Returns the effect of committed plans."""
    found = AppliedBatch(is_applied=True)
    for plan in plans:
        if plan.entry is not None:
            entry, blocks = plan.entry, len(plan.entry.replace_parts)
            found = add_applied(found, AppliedBatch(True, entry.rows, entry.size_bytes, blocks, plan.lost_rows))
    return found
