"""Errors that a statement meets while its result is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from engine.queries.process_list import Process
from parts.common.errors import PandoError, convert_resource_error


def translate_errors(
    batches: Iterator[pa.RecordBatch],
    process: Process,
    report_corruption: Callable[[PandoError], None],
    on_close: Callable[[], None],
) -> Iterator[pa.RecordBatch]:
    """Yields the batches and translates their errors; calls ``on_close`` at the end or at an error."""
    try:
        for batch in batches:
            process.is_working = False
            process.status.witness.record_handover()
            yield batch
            process.is_working = True
            process.status.witness.record_work()
            process.status.check()
    except PandoError as error:
        report_corruption(error)
        raise process.explain_cancellation(error) from error
    except (OSError, MemoryError) as error:
        raise convert_resource_error(error) from error
    finally:
        on_close()
