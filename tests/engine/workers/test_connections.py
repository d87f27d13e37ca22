"""States of connections are seen across a fork."""

from __future__ import annotations

import os

from engine.workers.connections.connection_states import ConnectionState, ConnectionStates


def test_a_fork_writes_what_its_parent_reads() -> None:
    states = ConnectionStates(13)
    states.reset(12)
    pid = os.fork()
    if pid == 0:
        states.states[12] = ConnectionState.IDLE
        states.received[12] = 1 << 40
        states.written[0] = 7
        states.states[0] = ConnectionState.ASKED
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(states.states) == [ConnectionState.ASKED, *[ConnectionState.FREE] * 11, ConnectionState.IDLE]
    assert (states.received[12], states.written[0], states.written[12]) == (1 << 40, 7, 0)
