"""What a worker knows of what the replica process published."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from engine.workers.catalog_mirror import CatalogMirror
from engine.workers.catalog_publication import CatalogPublication, PublishedChanges, Record
from engine.workers.shared_page import SharedPage


def test_nobody_goes_on_while_another_thread_takes_in_the_news() -> None:
    page, file = SharedPage(1), os.memfd_create("publication")
    publication = CatalogPublication(page, file)
    publication.on_database_created("db")
    has_begun, may_end = threading.Event(), threading.Event()
    known: list[Record] = []

    def apply(records: Sequence[Record]) -> None:
        has_begun.set()
        assert may_end.wait(30)
        known.extend(records)

    mirror = CatalogMirror(0, page, PublishedChanges(page, file), apply)
    seen: list[int] = []

    def look() -> None:
        mirror.catch_up()
        seen.append(len(known))

    threads = [threading.Thread(target=look) for _ in range(4)]
    threads[0].start()
    assert has_begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    for thread in threads[1:]:
        thread.join(0.05)
    assert seen == []
    may_end.set()
    for thread in threads:
        thread.join(30)
    assert seen == [2] * 4
    assert known == [("anew",), ("database", "db")]
    os.close(file)


def test_a_reader_far_behind_begins_anew() -> None:
    """What lies before the last whole account is given back to the system; nothing else is lost."""
    page, file = SharedPage(1), os.memfd_create("publication")
    publication = CatalogPublication(page, file)
    known: list[set[str]] = [set(), set()]
    begun_anew = [0, 0]

    def reader(number: int) -> CatalogMirror:
        def apply(records: Sequence[Record]) -> None:
            for record in records:
                match record:
                    case ("anew",):
                        known[number].clear()
                        begun_anew[number] += 1
                    case ("database", name):
                        known[number].add(name)
                    case ("no database", name):
                        known[number].remove(name)

        return CatalogMirror(number, page, PublishedChanges(page, file), apply)

    often, seldom = reader(0), reader(1)
    names: set[str] = set()
    for step in range(60_000):
        name = f"database{step * 7919 % 100}"
        if name in names:
            names.remove(name)
            publication.on_database_dropped(name)
        else:
            names.add(name)
            publication.on_database_created(name)
        if step % 10 == 0:
            often.catch_up()
            assert known[0] == names
        if step % 29_999 == 0:
            seldom.catch_up()
            assert known[1] == names
    assert page.published_from > 0
    assert begun_anew[0] >= 2
    held = os.fstat(file).st_blocks * 512
    assert held < page.published_to / 2
    os.close(file)
