"""What a link that failed says to people: the cause, and the statement that helps."""

from __future__ import annotations

from coordination.links.link_failures import FailureKind, LinkFailure, LinkPaused
from engine.tables.capabilities.table_links import ChangesAnswer, UncoveredSchema

_TOO_LATE = "CANNOT_READ_ALL_DATA"


def advise_copy(name: str) -> str:
    """Returns the advice to copy the source of the link of this name anew."""
    return f"SYSTEM BOOTSTRAP REPLICATION LINK {name} copies the source anew"


def explain_failure(name: str, error: Exception, failure: LinkFailure, text: str) -> str:
    """Returns the message of the link of this name after a failure; ``text`` is the error's own."""
    rows = error.rows if isinstance(error, UncoveredSchema | LinkPaused) else 0
    waits = f" {rows} rows wait." if rows else ""
    if failure.kind is FailureKind.STOP and failure.name == _TOO_LATE:
        return f"The source does not keep what the target lacks: {text}. {advise_copy(name)}"
    if failure.kind is FailureKind.STOP and failure.name in ("UNKNOWN_TABLE", "UNKNOWN_DATABASE"):
        return f"The source is gone: {text}. DROP REPLICATION LINK {name} ends the link"
    if failure.kind is FailureKind.PAUSE and failure.count >= 2 and not rows:
        return (
            f"The same change failed {failure.count} times: {text}.{waits} The link goes on by itself when the "
            f"cause is gone; ALTER REPLICATION LINK {name} DISABLE rests it"
        )
    return f"{text}.{waits}" if waits else text


def explain_waits(answer: ChangesAnswer) -> str:
    """Says what holds the source's stream back; "" if nothing does."""
    return "; ".join(answer.waits[:3]) if answer.source.newest > answer.frontier else ""
