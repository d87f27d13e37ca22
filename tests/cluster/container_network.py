"""The networks of clusters in containers, harmed: containers are taken off them, packets are lost, devices are slow.

What is done inside a container's network needs root on the engine's machine: ``nsenter`` and ``iptables``, ``tc``.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.cluster.container_id import connect_engine
from engine.cluster.container_plan import LINKS_NETWORK

TOOLS = ("nsenter", "ip", "tc", "iptables")
_SLOW = ("tbf", "rate", "400kbit", "burst", "16kb", "latency", "400ms")


def find_missing_tools() -> list[str]:
    """Returns which of the programs are missing."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


@contextmanager
def taken_off(network: str, containers: Sequence[str]) -> Iterator[None]:
    """Takes containers off a network, and puts them back at the end."""
    found = connect_engine().networks.get(network)
    for name in containers:
        found.disconnect(name)
    try:
        yield
    finally:
        for name in containers:
            found.connect(name)


@contextmanager
def parted(container: str, other: str) -> Iterator[None]:
    """Loses every packet between two containers, on all networks that they share."""
    pid = _inspect(container)["State"]["Pid"]
    addresses = [
        network["IPAddress"] for network in _inspect(other)["NetworkSettings"]["Networks"].values()
    ]  # fmt: skip
    rules = [
        rule for address in addresses for rule in (("OUTPUT", "-d", address), ("INPUT", "-s", address))
    ]  # fmt: skip
    for rule in rules:
        _run_inside(pid, "iptables", "-w", "-A", *rule, "-j", "DROP")
    try:
        yield
    finally:
        for rule in rules:
            _run_inside(pid, "iptables", "-w", "-D", *rule, "-j", "DROP")


@contextmanager
def slowed(containers: Sequence[str], network: str = LINKS_NETWORK) -> Iterator[None]:
    """Lets containers send no more than 50 kB a second into a network."""
    devices = [_find_device(name, network) for name in containers]
    for pid, device in devices:
        _run_inside(pid, "tc", "qdisc", "add", "dev", device, "root", *_SLOW)
    try:
        yield
    finally:
        for pid, device in devices:
            _run_inside(pid, "tc", "qdisc", "del", "dev", device, "root")


def _find_device(container: str, network: str) -> tuple[int, str]:
    state = _inspect(container)
    pid, address = state["State"]["Pid"], state["NetworkSettings"]["Networks"][network]["IPAddress"]
    lines = _run_inside(pid, "ip", "-o", "-4", "address").splitlines()
    return pid, next(line.split()[1] for line in lines if f" {address}/" in line)


def _inspect(container: str) -> dict[str, Any]:
    return dict(connect_engine().api.inspect_container(container))


def _run_inside(pid: int, *command: str) -> str:
    whole = ["nsenter", "-t", str(pid), "-n", *command]
    answer = subprocess.run(whole, capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 0, f"{' '.join(whole)}: {answer.stderr}"
    return answer.stdout
