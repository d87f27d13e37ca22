"""Replicas give each other parts over real sockets: whole and checked, or not at all."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer, _Handler
from engine.interserver.protocol import Manifest
from engine.interserver.transfer import Throttle, Transfer
from engine.simulator.simulated_table import SCHEMA
from parts.common.errors import CancelledError, CorruptionError, PandoError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.format.hashed_file import sync_directory
from parts.store.part_states import (
    Snapshot,
)
from parts.store.part_store import (
    PartStore,
)
from parts.table.table_description import TableDescription, make_column_key
from parts.write.part_writer import write_part
from sql.settings.merge_tree_settings import MergeTreeSettings
from tests.power_cut import power_cut

NAME = PartName.parse("1_0_0_0")
_ENDPOINT = "/tables/t/replicas/ä&b"


class Owner:
    """One part on disk and a server that lends it."""

    def __init__(self, root: Path, rows: int, credentials: tuple[str, str] | None, **settings: object) -> None:
        key = make_column_key(SCHEMA, ["k"])
        partition, none = make_column_key(SCHEMA, ["p"]), make_column_key(SCHEMA, [])
        description = TableDescription(SCHEMA, key, key, partition, none, MergeTreeSettings(**settings))  # type: ignore[arg-type]
        self.store = PartStore(root, description, time.time, uuid.uuid4)
        block = pa.table(
            {"p": [1] * rows, "k": range(rows), "v": [os.urandom(20).hex() for _ in range(rows)]}, schema=SCHEMA.arrow
        )
        directory = self.store.create_temporary("tmp_insert_")
        write_part(directory, block, description, [1])
        self.part = self.store.add_preactive(directory, NAME)
        self.store.commit(self.part)
        self.server = InterserverServer("127.0.0.1", 0, credentials, self.lend)
        self.server.start()
        self.url = f"http://127.0.0.1:{self.server.port}"

    def lend(self, endpoint: str, name: PartName) -> tuple[Snapshot, Path]:
        if endpoint != _ENDPOINT:
            raise UserError("NO_SUCH_DATA_PART", f"There is no replica {endpoint} on this server")
        snapshot = self.store.hold([name])
        return snapshot, snapshot.parts[0].path

    def files(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.part.path.iterdir()}

    def is_lending(self) -> bool:
        return any(entry.references for entry in self.store.entries())


MakeOwner = Callable[..., Owner]


@pytest.fixture
def make_owner(tmp_path: Path) -> Iterator[MakeOwner]:
    owners: list[Owner] = []

    def make(rows: int = 10, credentials: tuple[str, str] | None = None, **settings: object) -> Owner:
        owners.append(Owner(tmp_path / f"owner{len(owners)}", rows, credentials, **settings))
        return owners[-1]

    yield make
    for owner in owners:
        owner.server.stop()


@pytest.fixture
def client() -> Iterator[InterserverClient]:
    client = InterserverClient(None)
    yield client
    client.close()


def _read(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def _fetch(client: InterserverClient, owner: Owner, directory: Path, name: PartName = NAME) -> None:
    directory.mkdir()
    client.fetch_part(owner.url, _ENDPOINT, name, directory)


def test_an_altered_packed_part_is_not_taken(make_owner: MakeOwner, client: InterserverClient, tmp_path: Path) -> None:
    owner = make_owner()
    (file,) = owner.part.path.iterdir()
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptionError, match=r"meta\.bin"):
        _fetch(client, owner, tmp_path / "fetched")


@pytest.mark.parametrize(("rows", "wide_bytes"), [(10, 1 << 20), (10, 0), (60_000, 1 << 30), (60_000, 0)])
def test_a_part_arrives_whole_small_or_large_packed_or_wide(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path, rows: int, wide_bytes: int
) -> None:
    owner = make_owner(rows, min_bytes_for_wide_part=wide_bytes)
    _fetch(client, owner, tmp_path / "fetched")
    assert _read(tmp_path / "fetched") == owner.files()
    assert not owner.is_lending()


def test_a_draft_beside_the_files_is_not_of_the_part(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    """The owner may be giving its staged part a version at that moment."""
    owner = make_owner()
    files = owner.files()
    (owner.part.path / "meta.bin.tmp").write_bytes(b"new")
    _fetch(client, owner, tmp_path / "fetched")
    assert _read(tmp_path / "fetched") == files


def test_several_parts_come_by_one_request_without_those_that_are_not_there(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    owner = make_owner()
    absent = PartName.parse("1_7_7_0")
    directories = {absent: tmp_path / "absent", NAME: tmp_path / "fetched"}
    for directory in directories.values():
        directory.mkdir()
    assert client.fetch_parts(owner.url, _ENDPOINT, directories) == [NAME]
    assert _read(tmp_path / "fetched") == owner.files()
    assert not owner.is_lending()


def test_a_server_of_an_older_version_gives_the_first_of_several(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows one ``part`` in a request, and does not name it."""
    owner = make_owner()
    send_files = _Handler._send_files
    to_line = Manifest.to_line
    monkeypatch.setattr(_Handler, "_send_files", lambda self, where, parts: send_files(self, where, parts[:1]))
    monkeypatch.setattr(Manifest, "to_line", lambda self: to_line(Manifest(self.files)))
    directories = {NAME: tmp_path / "fetched", PartName.parse("1_7_7_0"): tmp_path / "other"}
    for directory in directories.values():
        directory.mkdir()
    assert client.fetch_parts(owner.url, _ENDPOINT, directories) == [NAME]
    assert _read(tmp_path / "fetched") == owner.files()


def test_one_connection_serves_many_fetches_and_is_replaced_when_it_has_died(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    owner = make_owner()
    for number in range(3):
        _fetch(client, owner, tmp_path / f"fetched{number}")
    (connection,) = owner.server._connections
    connection.shutdown(socket.SHUT_RDWR)
    _fetch(client, owner, tmp_path / "again")
    assert _read(tmp_path / "again") == owner.files()


def test_what_is_not_there_is_said_and_the_next_fetch_works(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    owner = make_owner()
    with pytest.raises(UserError, match="1_5_5_0") as refused:
        _fetch(client, owner, tmp_path / "none", PartName.parse("1_5_5_0"))
    assert refused.value.code == 232
    _fetch(client, owner, tmp_path / "some")


def test_credentials_are_asked_for(make_owner: MakeOwner, tmp_path: Path) -> None:
    owner = make_owner(credentials=("user", "right:word"))
    for number, credentials in enumerate([None, ("user", "wrong"), ("user", "right:word")]):
        client = InterserverClient(credentials)
        with contextlib.closing(client):
            if number < 2:
                with pytest.raises(UserError, match="Wrong interserver credentials"):
                    _fetch(client, owner, tmp_path / str(number))
            else:
                _fetch(client, owner, tmp_path / str(number))


def test_other_http_clients_are_understood(make_owner: MakeOwner) -> None:
    owner = make_owner()
    with httpx.Client(trust_env=False) as http:
        assert http.get(f"{owner.url}/ping").text == "Ok.\n"
        answer = http.get(f"{owner.url}/part", params={"endpoint": _ENDPOINT, "part": str(NAME)})
        manifest, _, content = answer.content.partition(b"\n")
        assert content == b"".join(owner.files()[name] for name, _ in Manifest.from_line(manifest).files)
        assert http.get(f"{owner.url}/part", params={"part": "nonsense"}).status_code == 404
        assert http.get(f"{owner.url}/other").status_code == 404
        assert http.post(f"{owner.url}/part", content=b"x").status_code == 501
        assert http.request("GET", f"{owner.url}/ping", content=b"x").status_code == 400
        assert http.get(f"{owner.url}/ping", headers={"Connection": "close"}).text == "Ok.\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + b"a" * 70_000,
        b"GET /ping HTTP/1.1\r\nName: " + b"a" * 70_000,
        b"GET /ping HTTP/1.1\r\n" + b"name: value\r\n" * 200,
    ],
)
def test_what_is_not_http_ends_the_connection_and_says_nothing_on_stderr(
    make_owner: MakeOwner, capfd: pytest.CaptureFixture[str], request_bytes: bytes
) -> None:
    owner = make_owner()
    with socket.create_connection(("127.0.0.1", owner.server.port), 30) as connection:
        connection.sendall(request_bytes)
        with contextlib.suppress(ConnectionResetError), connection.makefile("rb") as answer:
            assert b"Ok." not in answer.read()
    assert httpx.get(f"{owner.url}/ping", trust_env=False).status_code == 200
    assert capfd.readouterr().err == ""


def test_a_connection_on_which_nothing_moves_is_closed(make_owner: MakeOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "timeout", 0.01)
    with socket.create_connection(("127.0.0.1", make_owner().server.port), 30) as connection:
        assert connection.recv(1) == b""


def test_an_address_in_use_is_said(make_owner: MakeOwner) -> None:
    with pytest.raises(UserError, match="set another interserver_http_port") as refused:
        InterserverServer("127.0.0.1", make_owner().server.port, None, lambda *_: pytest.fail("not asked"))
    assert refused.value.code == 210


def test_ipv6_addresses(make_owner: MakeOwner, client: InterserverClient, tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    owner = make_owner()
    server = InterserverServer("::1", 0, None, owner.lend)
    server.start()
    try:
        client.fetch_part(f"http://[::1]:{server.port}", _ENDPOINT, NAME, tmp_path)
    finally:
        server.stop()


def test_a_server_that_never_started_stops(make_owner: MakeOwner) -> None:
    InterserverServer("127.0.0.1", 0, None, make_owner().lend).stop()


class _Liar:
    """Answers every request with the given bytes and closes."""

    def __init__(self, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, connection.makefile("rb") as stream:
                    while stream.readline().strip():
                        pass
                    connection.sendall(self._answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
_MANIFEST = b'{"version":1,"files":[{"name":"data.bin","size":100}]}\n'


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SPDY\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _HEAD % 9 + _MANIFEST,
        _HEAD % (len(_MANIFEST) + 100) + _MANIFEST,
        _HEAD % (len(_MANIFEST) + 100) + _MANIFEST + b"x" * 99,
        _HEAD % 100 + b'{"version":1,"files":[{"name":"../up","size":1}]}\n' + b"x",
        _HEAD % 81 + b'{"version":1,"files":[{"name":"a.bin","size":-9},{"name":"b.bin","size":12}]}\n' + b"x" * 3,
        _HEAD % 20 + b'{"version":2}',
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + _MANIFEST + b"x" * 100,
    ],
)
def test_a_cut_or_strange_answer_is_a_network_error(client: InterserverClient, tmp_path: Path, answer: bytes) -> None:
    with contextlib.closing(_Liar(answer)) as liar, pytest.raises(PandoError) as error:
        client.fetch_part(liar.url, _ENDPOINT, NAME, tmp_path)
    assert error.value.code == 210
    assert not client._idle


def test_altered_bytes_are_not_taken(make_owner: MakeOwner, client: InterserverClient, tmp_path: Path) -> None:
    owner = make_owner(min_bytes_for_full_part_storage=0)
    data = owner.part.path / "data.bin"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    with pytest.raises(CorruptionError, match=r"data\.bin"):
        _fetch(client, owner, tmp_path / "fetched")


def test_a_fetch_is_cancelled_on_the_way(make_owner: MakeOwner, client: InterserverClient, tmp_path: Path) -> None:
    owner = make_owner(60_000)
    with pytest.raises(CancelledError):
        client.fetch_part(owner.url, _ENDPOINT, NAME, tmp_path, Transfer(lambda: True))
    assert not client._idle


def test_a_stop_cuts_what_is_being_sent(make_owner: MakeOwner, client: InterserverClient, tmp_path: Path) -> None:
    owner = make_owner(400_000, min_bytes_for_wide_part=0)
    stopped = []

    def stop_once() -> bool:
        if not stopped:
            stopped.append(True)
            owner.server.stop()
        return False

    with pytest.raises(PandoError) as error:
        client.fetch_part(owner.url, _ENDPOINT, NAME, tmp_path, Transfer(stop_once))
    assert error.value.code == 210
    assert not owner.is_lending()
    assert not owner.server._connections


def test_the_bytes_that_came_are_counted_and_take_their_time(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    owner = make_owner(60_000)
    now = [0.0]

    def wait(_: threading.Event, seconds: float) -> bool:
        now[0] += seconds
        return False

    throttles = [Throttle(lambda: 1_000_000, lambda: now[0], wait), Throttle(lambda: 0, lambda: now[0], wait)]
    transfer = Transfer(throttles=throttles)
    client.fetch_part(owner.url, _ENDPOINT, NAME, tmp_path, transfer)
    size = sum(len(data) for data in owner.files().values())
    assert size <= transfer.received_bytes <= transfer.total_bytes < size + 1000
    assert now[0] == pytest.approx(transfer.received_bytes / 1_000_000)


def test_sends_that_are_stopped_on_the_way_are_cut(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    owner = make_owner(400_000, min_bytes_for_wide_part=0)
    sent: list[int] = []

    def before_sending(endpoint: str, size: int) -> None:
        assert endpoint == _ENDPOINT
        if sum(sent) > 1_000_000:
            raise UnavailableError("ABORTED", "Transferring part to replica was cancelled")
        sent.append(size)

    owner.server.before_sending = before_sending
    with pytest.raises(PandoError) as error:
        client.fetch_part(owner.url, _ENDPOINT, NAME, tmp_path)
    assert error.value.code == 210
    assert sum(sent) < sum(len(data) for data in owner.files().values())


def test_part_that_lacks_a_file_at_its_owner_is_not_taken(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path
) -> None:
    """It would be listed, and counted for a quorum, and could not be read."""
    owner = make_owner(min_bytes_for_wide_part=0)
    for number, name in enumerate(sorted(owner.files())):
        content = (owner.part.path / name).read_bytes()
        (owner.part.path / name).unlink()
        with pytest.raises(CorruptionError):
            _fetch(client, owner, tmp_path / f"fetched{number}")
        (owner.part.path / name).write_bytes(content)


def test_fetched_part_survives_a_power_cut(
    make_owner: MakeOwner, client: InterserverClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = make_owner(60_000, min_bytes_for_wide_part=0)
    (tmp_path / "disk").mkdir()
    with power_cut(tmp_path / "disk", tmp_path / "image") as image:
        _fetch(client, owner, tmp_path / "disk" / "fetched")
        sync_directory(tmp_path / "disk" / "fetched")  # as the store does before it gives the part its name
        sync_directory(tmp_path / "disk")
    assert _read(image / "fetched") == owner.files()
