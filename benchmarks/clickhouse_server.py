"""Debian's ClickHouse 18.16 server as a peer: a configuration of its own in a folder of its own, on free ports."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from coordination.keeper.embedded_zookeeper import find_free_port

_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>{path}/log</log><errorlog>{path}/errors</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
  <interserver_http_port>{interserver}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>
  <users_config>{path}/users.xml</users_config>
  <mark_cache_size>1073741824</mark_cache_size>
  {more}
  <default_profile>default</default_profile><default_database>default</default_database>
</yandex>
"""
_USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default><log_queries>0</log_queries></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
  <quota>default</quota></default></users>
  <quotas><default></default></quotas>
</yandex>
"""


def start_clickhouse(path: Path, stack: ExitStack, more: str = "") -> tuple[int, int]:
    """HTTP port and pid of a server in the new folder ``path``, ``more`` in its configuration. ``stack`` ends it."""
    for part in ("data", "tmp"):
        (path / part).mkdir(parents=True)
    http, tcp, interserver = find_free_port(), find_free_port(), find_free_port()
    config = _CONFIG.format(path=path, http=http, tcp=tcp, interserver=interserver, more=more)
    (path / "config.xml").write_text(config)
    (path / "users.xml").write_text(_USERS)
    process = subprocess.Popen(
        ["clickhouse-server", f"--config-file={path / 'config.xml'}"],
        cwd=path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(end_process, process)
    return http, process.pid


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
