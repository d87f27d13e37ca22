"""A part goes from one server of a colony to another, with the errors that the real exchange has for both disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.interserver.replication import Replication
from engine.interserver.transfer import Transfer
from parts.common.errors import CorruptionError, UnavailableError, convert_resource_error
from parts.common.part_name import PartName
from parts.format.hashed_file import convert_read_error, read_small_file


def transfer_part(
    sender: Replication,
    endpoint: str,
    part: PartName,
    directory: Path,
    transfer: Transfer,
    before_file: Callable[[], None],
) -> None:
    """Copies the files of the sender's part to ``directory``. A file that the sender cannot read is told to its table,
    and the connection breaks off (210); what the receiver's disk does not take is 243 or 75."""
    snapshot, source = sender.lend_part(endpoint, part)
    with snapshot:
        try:
            files = list(_files(source, part))
            transfer.begin(sum(file.stat().st_size for file in files))
            for file in files:
                before_file()
                content = read_small_file(file, str(part))
                with own_disk():
                    (directory / file.name).write_bytes(content)
        except CorruptionError as error:
            sender.report_corruption(endpoint, error)
            raise UnavailableError("NETWORK_ERROR", f"The sender broke off: {error.message}") from None


def _files(directory: Path, part: PartName) -> Iterator[Path]:
    try:
        return directory.iterdir()
    except OSError as error:
        raise convert_read_error(error, str(part), ".") from None


@contextmanager
def own_disk() -> Iterator[None]:
    """An error of the receiver's disk is told as what it is."""
    try:
        yield
    except OSError as error:
        raise convert_resource_error(error) from error
