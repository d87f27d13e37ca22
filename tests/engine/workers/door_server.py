"""A replica process with forked workers, to test the front door: ``python -m tests.engine.workers.door_server JSON``.

The workers are real HTTP servers, each on an engine of its own without tables. Forked at the start, before any thread;
commands come as lines of JSON on standard input (``[method, argument …]``), each answered with one on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.commands.stop_signals import StopSignals
from engine.engine import Engine
from engine.front.http.http_server import bind_socket
from engine.front.http.routes import make_status_page_application
from engine.front.http.status_pages import OK_PAGE, StatusPage
from engine.server.config import Config
from engine.workers.connections.connection_states import ConnectionState, ConnectionStates
from engine.workers.connections.dispatcher import ConnectionDispatcher
from engine.workers.connections.receiver import make_worker_http_server


@dataclass
class Worker:
    name: str
    door_socket: socket.socket
    pid: int
    is_open: bool = False


class ReplicaPages:
    def ping(self) -> StatusPage:
        return OK_PAGE

    def replicas_status(self, *, verbose: bool) -> StatusPage:
        return StatusPage(b"verbose\n" if verbose else b"Ok.\n")

    def ready(self) -> StatusPage:
        return StatusPage(b"not yet\n", 503)

    def metrics(self) -> StatusPage:
        return StatusPage(b"# replica\n")


def run_worker(config: Config, number: int, door_socket: socket.socket, states: ConnectionStates) -> None:
    """Until the replica process is gone, or SIGTERM drains it."""
    stop = StopSignals()
    is_replica_gone = threading.Event()
    own = {"path": config.path / str(number), "display_name": f"worker {number}"}
    engine = Engine(config.model_copy(update=own))
    engine.start()
    http = make_worker_http_server(config, door_socket, states, is_replica_gone.set)
    http.start(engine)
    while not stop.wait(0.05) and not is_replica_gone.is_set():
        pass
    http.stop()


class Program:
    def __init__(self, options: dict[str, Any], count: int, directory: Path) -> None:
        config = Config.model_validate({"path": directory, "http_port": 0, "interserver_http_port": None, **options})
        self.states = ConnectionStates(config.max_connections)
        self.listening = bind_socket("127.0.0.1", 0, "http_port")
        self.port = self.listening.getsockname()[1]
        self.workers: list[Worker] = []
        for number in range(count):
            self.workers.append(self.fork(config, number))
        self.door = ConnectionDispatcher(
            self.listening, config, self.states, lambda: self.workers, make_status_page_application(ReplicaPages())
        )
        self.door.start()

    def fork(self, config: Config, number: int) -> Worker:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid:
            there.close()
            return Worker(f"worker {number}", here, pid)
        for other in (here, self.listening, *(worker.door_socket for worker in self.workers)):
            other.close()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        try:
            run_worker(config, number, there, self.states)
        finally:
            os._exit(0)

    def add(self, number: int) -> None:
        self.workers[number].is_open = True
        self.door.add(self.workers[number])

    def rescue(self, number: int, reason: str) -> None:
        worker = self.workers[number]
        worker.is_open = False
        os.waitpid(worker.pid, 0)
        self.door.take_over_connections(worker, reason)
        worker.door_socket.close()

    def shut(self, number: int) -> None:
        self.workers[number].is_open = False

    def connections(self) -> list[int]:
        return [self.door.connections(worker) for worker in self.workers]

    def state(self) -> dict[str, int]:
        names = [ConnectionState(state).name for state in self.states.states if state != ConnectionState.FREE]
        return {name: names.count(name) for name in names}

    def descriptors(self, number: int | None = None) -> int:
        return len(os.listdir(f"/proc/{self.workers[number].pid if number is not None else 'self'}/fd"))

    def stop_accepting(self) -> None:
        self.door.stop_accepting()

    def stop(self) -> None:
        self.door.stop()


def main() -> None:
    options, count = json.loads(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        program = Program(options, count, Path(directory))
        print(json.dumps({"port": program.port, "pids": [worker.pid for worker in program.workers]}), flush=True)
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            print(json.dumps(getattr(program, name)(*arguments)), flush=True)
        for worker in program.workers:
            if worker.door_socket.fileno() >= 0:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)


if __name__ == "__main__":
    main()
