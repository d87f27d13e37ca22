"""The messages of a survey of an origin (``engine.links.origin_survey``).

==========  ===========================================================================================================
``origin``  {origin, database, table} or {origin, link, uuid}; {seconds, most_links, seen: [[cluster UUID, table]]} →
            {holders: [{cluster, uuid, table_id, table, applied, is_own}], silent: [{cluster, table, reason}]}
==========  ===========================================================================================================

A table is named, or is the target of a link. Those in ``seen`` have answered. ``applied`` is missing where a table has
no changes of the origin. Servers of version 1 do not know the request.
"""

from __future__ import annotations

from typing import Any

from coordination.links.origin_survey import Objection, OriginHolder, OriginSurvey, SurveyRequest
from coordination.links.positions import Origin
from engine.links.exchange.fields import Document, get_flag, get_list, get_number, get_objects, get_seconds, get_text
from parts.common.errors import UserError

LEAST_VERSION = 2
"""The version of the protocol that brought the request."""
_MOST_SECONDS = 60.0
_MOST_LINKS = 64


def encode_survey_request(request: SurveyRequest) -> dict[str, Any]:
    """Returns the question as JSON."""
    asked = {"link": request.link, "uuid": request.uuid} if request.link else {}
    named = {} if request.link else {"database": request.database, "table": request.table}
    return {
        "origin": str(request.origin),
        **asked,
        **named,
        "seconds": request.seconds,
        "most_links": request.most_links,
        "seen": [list(key) for key in sorted(request.seen)],
    }


def decode_survey_request(document: Document) -> SurveyRequest:
    """Parses the question. Raises 36 (BAD_ARGUMENTS)."""
    return SurveyRequest(
        Origin.parse(get_text(document, "origin")),
        get_text(document, "database", ""),
        get_text(document, "table", ""),
        get_text(document, "link", ""),
        get_text(document, "uuid", ""),
        get_seconds(document, "seconds", _MOST_SECONDS),
        get_number(document, "most_links", most=_MOST_LINKS),
        frozenset(map(_decode_key, get_list(document, "seen"))),
    )


def _decode_key(items: object) -> tuple[str, int]:
    match items:
        case [str(cluster), int(table)]:
            return cluster, table
    raise UserError("BAD_ARGUMENTS", f"'seen' must hold pairs of a cluster and a table, got {items!r:.200}")


def encode_survey(survey: OriginSurvey) -> dict[str, Any]:
    """Returns the answer as JSON."""
    return {
        "holders": [
            {
                "cluster": each.cluster,
                "uuid": each.cluster_uuid,
                "table_id": each.table_id,
                "table": each.table,
                "is_own": each.is_own,
                **({} if each.applied is None else {"applied": each.applied}),
            }
            for each in survey.holders
        ],
        "silent": [{"cluster": each.cluster, "table": each.table, "reason": each.reason} for each in survey.silent],
    }


def decode_survey(document: Document) -> OriginSurvey:
    """Parses the answer. Raises 36 (BAD_ARGUMENTS)."""
    return OriginSurvey(
        [
            OriginHolder(
                get_text(each, "cluster"),
                get_text(each, "uuid"),
                get_number(each, "table_id"),
                get_text(each, "table"),
                get_number(each, "applied") if "applied" in each else None,
                get_flag(each, "is_own"),
            )
            for each in get_objects(document, "holders")
        ],
        [
            Objection(get_text(each, "cluster"), get_text(each, "table"), get_text(each, "reason"))
            for each in get_objects(document, "silent")
        ],
    )
