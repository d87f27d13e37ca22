"""Small blocks, many in one request: ``POST /links/blocks``.

A request for each block costs both ends more than the block itself. So the source is asked for small ones together::

    {"database": …, "table": …, "parts": [<part>, …]}
    {"blocks": [[<part>, <base64 of the manifest and files>], …]}

A block that is large, or not at the server that was asked, is missing in the answer: it is fetched by itself. The files
have the form of :mod:`engine.links.exchange.file_transfer`, and are checked in the same way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from engine.links.exchange.fields import Document, get_list, get_texts
from engine.links.exchange.file_transfer import send_part
from engine.links.exchange.protocol import parse_part_name
from engine.tables.capabilities.table_links import LinkSource
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName

LEAST_VERSION = 3
"""The least version of the links' protocol that has the request."""
MOST_BLOCKS = 256
MOST_BLOCK_BYTES = 64 * 1024
"""Of one block's files. Larger ones are fetched by themselves."""


def answer_blocks(source: LinkSource, document: Document) -> Document:
    """Returns the small blocks that this server has. Raises 36 (BAD_ARGUMENTS) for too many or bad names."""
    names = get_texts(document, "parts")
    if len(names) > MOST_BLOCKS:
        raise UserError("BAD_ARGUMENTS", f"/links/blocks asks for {len(names)} blocks, at most {MOST_BLOCKS} are sent")
    found = ((part, _read_block(source, part)) for part in map(parse_part_name, names))
    return {"blocks": [[str(part), base64.b64encode(data).decode()] for part, data in found if data]}


def _read_block(source: LinkSource, part: PartName) -> bytes:
    opened = source.open_block_here(part)
    if opened is None:
        return b""
    snapshot, directory = opened
    try:
        if sum(file.stat().st_size for file in directory.iterdir()) > MOST_BLOCK_BYTES:
            return b""
        return b"".join(send_part(directory))
    except (OSError, PandoError):  # the block is fetched by itself, which reports what is broken
        return b""
    finally:
        snapshot.release()


def decode_blocks(document: Document, asked: Sequence[PartName]) -> Mapping[PartName, bytes]:
    """Returns manifest and files of each block of an answer. Raises 36 (BAD_ARGUMENTS) for another form."""
    wanted, found = {str(part): part for part in asked}, {}
    for item in get_list(document, "blocks"):
        if not isinstance(item, list) or len(item) != 2 or not all(isinstance(each, str) for each in item):
            raise UserError("BAD_ARGUMENTS", f"blocks must be pairs of strings, not {str(item)[:100]}")
        if item[0] in wanted:
            try:
                found[wanted[item[0]]] = base64.b64decode(item[1], validate=True)
            except binascii.Error as error:
                raise UserError("BAD_ARGUMENTS", f"block {item[0]} is not base64: {error}") from None
    return found
