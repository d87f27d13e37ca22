"""The requests with which clusters switch over, and their fields.

======================  ================================================================================================
``switching/place``     {database, table, vector, own, by} → {place, vector, forks, later}: where such a table follows
``switching/forks``     {origins, followed} → {ended, forks, database, table, vector, outgoing}: who ended an epoch
``switching/promise``   {link, uuid, origin, asker, asker_uuid} → {database, table, vector}: takes nothing more
``switching/release``   {link, uuid, asker_uuid} → {}: the promise is over, without a fork
``switching/fork``      {fork, link, uuid} or {fork, database, table, link} → {message}: empty if it is heeded
``switching/close``     {tables, ticket, group, cluster, seconds} → {positions}: bars the source
``switching/open``      {tables, ticket} → {}: the ticket is void
``switching/turn``      {tables, ticket, group, new_source, new_source_uuid} → {message}: the source becomes a target
``switching/group``     {group} → {links}: those that were switched over as this group
======================  ================================================================================================

``tables`` are objects: {database, table}, for ``close`` with {link, uuid, origin}, for ``turn`` with {link, back,
settings, fork, place}. All of them are closed, opened and turned at one moment; ``group`` is empty for one table alone.
"""

from __future__ import annotations

import json
from typing import Any

from coordination.links.version_vector import VersionVector


def encode_vector(vector: VersionVector) -> dict[str, Any]:
    """Returns a vector as JSON."""
    document: dict[str, Any] = json.loads(vector.to_bytes())
    return document
