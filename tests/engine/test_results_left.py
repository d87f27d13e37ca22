"""What nobody reads to its end ends wherever it is collected."""

from __future__ import annotations

import gc
import threading

import pytest

from tests.engine.conftest import Local


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_result_is_collected_by_who_begins_a_statement(local: Local, is_closed: bool) -> None:
    engine = local.engine
    held = [engine.execute("SELECT number FROM numbers(3000000)", local.session, None)]
    next(held[0].batches)
    if is_closed:
        held[0].close()

    def begin() -> None:
        with engine._processes._lock:
            held.clear()
            gc.collect()

    beginning = threading.Thread(target=begin, daemon=True)
    beginning.start()
    beginning.join(30)
    assert not beginning.is_alive()
    assert not list(engine.processes())
    assert len(local.run("SELECT 1")) == 1
