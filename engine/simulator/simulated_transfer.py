"""Transfers parts between simulated servers, with the disk errors of the real exchange."""

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
    """Copies the files of the sender's part to ``directory``.

    A file that the sender cannot read is reported to its table, and the connection breaks (210). Errors of the
    receiver's disk are 243 or 75.
    """
    snapshot, source = sender.pin_part(endpoint, part)
    with snapshot:
        try:
            files = list(_files(source, part))
            transfer.begin(sum(file.stat().st_size for file in files))
            for file in files:
                before_file()
                content = read_small_file(file, str(part))
                with as_disk_error():
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
def as_disk_error() -> Iterator[None]:
    """Converts errors of the receiver's disk into its own errors."""
    try:
        yield
    except OSError as error:
        raise convert_resource_error(error) from error
