"""The definitions that ALTERs gave a linked table, as nodes that have a place among its changes.

::

    definitions/<version>    {"version":1,"metadata":"…","columns":"…"}

``<version>`` counts the table's ALTERs, as parts name it. The texts are those of the nodes ``metadata`` and
``columns``. A node is made in the multi that changes ``columns``, while the table has links. It goes when every replica
has it in its journal (:mod:`coordination.links.stream.kept_changes`).
"""

from __future__ import annotations

import json

from coordination.keeper.interface import Create, Keeper, Op
from coordination.links.stream.change import Definition
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists
from parts.common.errors import CorruptionError

FORMAT_VERSION = 1


def definition_ops(keeper: Keeper, table: TablePaths, gate: Gate | None, definition: Definition) -> list[Op]:
    """Returns the operation that makes the node, for the multi of the ALTER.

    Returns none for a table without links. ``gate`` is the one whose version the multi checks.
    """
    if gate is None or not gate.links:
        return []
    if keeper.exists(table.linked.definitions) is None:
        create_lists(keeper, table, table.linked.definitions)
    document = {"version": FORMAT_VERSION, "metadata": definition.metadata, "columns": definition.columns}
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return [Create(table.linked.definition(definition.version), data)]


def decode_definition(version: int, data: bytes) -> Definition:
    """Parses the content of a node. Raises ``CorruptionError``."""
    try:
        document = json.loads(data)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
        return Definition(version, str(document["metadata"]), str(document["columns"]))
    except (ValueError, KeyError, TypeError) as error:
        message = f"Cannot read the definition {data[:200]!r}: {error}"
        raise CorruptionError(message, name="CORRUPTED_DATA") from error
