"""Links to clusters behind proxies that speak TLS."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.server.config import Config
from engine.server.links_config import LinkedClusterConfig
from parts.common.errors import PandoError
from tests.links.linked_servers import PASSWORD, USER, LinkedServer, create_table, linked_servers
from tests.links.tls_proxy import AUTHORITY, OTHER_AUTHORITY, TlsProxy

CREATE = "CREATE REPLICATION LINK l ON t FROM CLUSTER west SETTINGS start_position = 'now'"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LinkedServer, LinkedServer, TlsProxy]]:
    with linked_servers(tmp_path_factory.mktemp("tls"), west=1, east=1) as found:
        west, east = found["west"][0], found["east"][0]
        create_table([west, east])
        with TlsProxy(west.http.port) as proxy:
            yield west, east, proxy


def know(east: LinkedServer, url: str, ca_file: Path | None) -> None:
    config = LinkedClusterConfig(urls=[url], user=USER, password=PASSWORD, ca_file=ca_file)
    east.engine.linked_clusters._clusters = {"west": config}


def test_a_link_runs_through_a_proxy_that_speaks_tls(servers: tuple[LinkedServer, LinkedServer, TlsProxy]) -> None:
    west, east, proxy = servers
    know(east, f"https://127.0.0.1:{proxy.port}", AUTHORITY)
    with west.client() as source, east.client() as target:
        target.execute(CREATE)
        source.execute("INSERT INTO t SELECT number, hex(number) FROM numbers(1000)")
        target.execute("SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        assert target.value("SELECT sum(k) FROM t") == 499500
        target.execute("DROP REPLICATION LINK l")
    assert proxy.received > 0


@pytest.mark.parametrize(
    ("host", "authority", "reason"),
    [
        ("127.0.0.1", None, "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", OTHER_AUTHORITY, "CERTIFICATE_VERIFY_FAILED"),
        ("localhost", AUTHORITY, "certificate is not valid for 'localhost'"),
    ],
)
def test_a_server_that_cannot_prove_who_it_is_gets_nothing(
    servers: tuple[LinkedServer, LinkedServer, TlsProxy],
    host: str,
    authority: Path | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, east, proxy = servers
    know(east, f"https://{host}:{proxy.port}", authority)
    before = proxy.received
    with caplog.at_level(logging.DEBUG), east.client() as target, pytest.raises(PandoError) as error:
        target.execute(CREATE)
    assert reason in error.value.message
    assert "ca_file" in error.value.message
    assert proxy.received == before
    assert PASSWORD not in f"{error.value} {caplog.text}"


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_no_certificates(
    servers: tuple[LinkedServer, LinkedServer, TlsProxy], content: str | None, tmp_path: Path
) -> None:
    _, east, proxy = servers
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    know(east, f"https://127.0.0.1:{proxy.port}", file)
    with east.client() as target, pytest.raises(PandoError) as error:
        target.execute(CREATE)
    assert error.value.code == 36
    assert str(file) in error.value.message


def test_a_relative_file_counts_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("path: data\nlinked_clusters: {west: {urls: ['https://w1:8443'], ca_file: keys/ca.pem}}\n")
    assert Config.load(file).linked_clusters["west"].ca_file == tmp_path / "keys" / "ca.pem"
