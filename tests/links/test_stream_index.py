"""The index of a change stream finds the pages that a look at all changes finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordination.links.positions import Epoch, Origin, Position
from coordination.links.stream.change import Block, Change
from coordination.links.stream.cuts import find_cuts
from coordination.links.stream.stream_index import StreamIndex
from parts.common.part_name import PartName

OWN = Origin("11111111-0000-4000-8000-000000000000", 7, Epoch(1, 1))
OTHER = Origin("22222222-0000-4000-8000-000000000000", 7, Epoch(1, 1))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Change], list[int]]:
    """Changes of one or several a place, and the frontiers at which they became known."""
    changes, place = [], 0
    for number in range(draw(st.integers(0, 12))):
        place += draw(st.integers(0, 3)) if changes else 1
        origin = draw(st.sampled_from([OWN, OTHER]))
        rows = draw(st.integers(0, 5))
        block = Block(PartName("p", draw(st.integers(0, 12)), 12, 0), rows=rows, size_bytes=10 * rows)
        changes.append(Change(Position(origin, place + number), max(place, 1), 0, 0, (block,)))
    ends = sorted(draw(st.lists(st.integers(0, place + 2), max_size=3)))
    return changes, [*ends, place + 2]


@given(streams(), st.integers(0, 20), st.integers(1, 12), st.integers(1, 100), st.integers(1, 5), st.integers(0, 20))
def test_pages(
    stream: tuple[list[Change], list[int]], after: int, max_rows: int, max_bytes: int, max_changes: int, forgotten: int
) -> None:
    changes, ends = stream
    cuts = find_cuts(changes, 0, is_ordered=True)
    index, known = StreamIndex(0), 0
    for end in ends:
        if end and end not in (*cuts, ends[-1]):
            continue
        fresh = [change for change in changes if known < change.place <= end]
        index.extend(OWN, fresh, [cut for cut in cuts if known < cut <= end], end)
        known = max(known, end)
        index.forget_before(min(after, forgotten), at_least=0)
    page = index.find_page(after, max_rows, max_bytes, max_changes)
    behind = [change for change in changes if change.place > after]
    assert page.rows_behind == sum(change.rows for change in behind)
    assert page.bytes_behind == sum(change.size_bytes for change in behind)
    allowed = [cut for cut in cuts if cut > after]
    fitting = [
        cut
        for cut in allowed
        if sum(c.rows for c in behind if c.place <= cut) <= max_rows
        and sum(c.size_bytes for c in behind if c.place <= cut) <= max_bytes
        and sum(c.place <= cut for c in behind) <= max_changes
    ]
    chosen = fitting or allowed[:1]
    if chosen == allowed and index.end > (chosen[-1] if chosen else after):
        chosen = [*chosen, index.end]
    assert list(page.cuts) == chosen
    assert page.end == (chosen[-1] if chosen else max(after, index.end))
    own = [change.place for change in changes if change.position.origin == OWN and change.place <= after]
    assert index.find_previous_own(after) == max(own, default=0)
    last = max((change.place for change in changes if change.place <= after), default=0)
    assert index.is_cut(after) == (last == 0 or last in cuts)


def test_what_the_journal_gave_up_takes_no_memory() -> None:
    index = StreamIndex(0)
    for place in range(1, 10_001):
        change = Change(Position(OWN, place), place, 0, place - 1, (Block(PartName("p", place, place, 0), rows=1),))
        index.extend(OWN, [change], [place], place)
        index.forget_before(place - 100)
    assert len(index) < 2200
    assert index.find_previous_own(9_900) == 9_900
    assert index.find_page(9_950, 1000, 1000, 1000).rows_behind == 50
