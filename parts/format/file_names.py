"""File names of a part: every name is built and parsed here.

A part is a directory of immutable files; ``parts.format.part_files`` defines their contents:

===================  ==========================================================================
``<column>.bin``     wide parts: the frames of one column (``parts.format.frames``), back to back;
``data.bin``         compact parts: for every window of rows, the frames of each column in turn
                     (packed ones: inside ``meta.bin``);
``columns``          JSON: format version, granularity, names, types and codecs, in stored order;
``count``            number of rows, decimal;
``partition``        values of the partition key (``array_file``);
``minmax``           smallest and largest value of every column the partition key reads (same format);
``primary.idx``      sorting key at the first row of every granule and at the last row (``array_file``);
``marks``            granule → frame, a packed array a column (``parts.format.marks``);
``skip.idx``         the skip indexes, of a table that has some (``skip_indexes.skip_index_file``); packed parts have
                     it in ``meta.bin``;
``uuid``             the part's UUID as text; nil unless one was given;
``metadata_version`` number of the schema version that the part was written under, decimal; none for 0;
``row_version``      when and where the rows were inserted (``parts.table.row_version``); of some tables;
``row_place``        where, and by which commit, the rows were inserted (same module); of some tables;
``checksums``        size and XXH3-128 of every file above, the content hash (``parts.format.checksums``);
``meta.bin``         compact parts: the files from ``columns`` to ``checksums`` (``parts.format.packed_metadata``).
===================  ==========================================================================

A column's file name is its name with every byte outside ``[A-Za-z0-9_]`` as ``%XX``; names longer than 127 characters
become ``%h`` and the XXH3-128 of the name.
"""

from __future__ import annotations

import re

import xxhash

MAJOR_VERSION = 6
"""Parts of a newer major version are refused; see ``parts.format.part_files``."""
FIRST_VERSION = (1, 0)
DATA_FILE = "data.bin"
META_FILE = "meta.bin"
DRAFT_SUFFIX = ".tmp"
"""The end of the name of a file that is written to take the place of another one. No file of a part ends so."""
COLUMNS = "columns"
COUNT = "count"
PARTITION = "partition"
MINMAX = "minmax"
PRIMARY_INDEX = "primary.idx"
MARKS = "marks"
SKIP_INDEXES = "skip.idx"
UUID = "uuid"
METADATA_VERSION = "metadata_version"
TTL = "ttl"
ROW_VERSION = "row_version"
ROW_PLACE = "row_place"
CHECKSUMS = "checksums"
BIN_SUFFIX = ".bin"
_LONGEST_NAME = 127


def encode_column_name(name: str) -> str:
    """Returns the file name stem for a column name."""
    escaped = re.sub(rb"[^A-Za-z0-9_]", lambda match: b"%%%02X" % match.group()[0], name.encode()).decode()
    return escaped if len(escaped) <= _LONGEST_NAME else f"%h{xxhash.xxh3_128_hexdigest(name.encode())}"


def get_column_file_name(name: str) -> str:
    """Returns the data file of a column of a wide part.

    The columns ``data`` and ``meta`` get their first letter escaped, so that they do not clash.
    """
    stem = encode_column_name(name)
    if stem + BIN_SUFFIX in (DATA_FILE, META_FILE):
        stem = f"%{ord(stem[0]):02X}{stem[1:]}"
    return stem + BIN_SUFFIX
