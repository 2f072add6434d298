"""Spans and the index, against sets and dictionaries."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.engines.local.store import index as indexes
from ullage.engines.local.store.index import Index
from ullage.engines.local.store.spans import Span, intersect, pieces, subtract, total

SETS = st.sets(st.integers(0, 40))


def spans(numbers: set[int]) -> list[Span]:
    found: list[Span] = []
    for one in sorted(numbers):
        if found and found[-1].end == one:
            found[-1] = Span(found[-1].start, one + 1)
        else:
            found.append(Span(one, one + 1))
    return found


def numbers(of: list[Span]) -> set[int]:
    return {one for span in of for one in range(span.start, span.end)}


@settings(deadline=None)
@given(one=SETS, other=SETS, limit=st.integers(1, 9))
def test_spans_are_sets(one: set[int], other: set[int], limit: int) -> None:
    assert numbers(list(subtract(spans(one), spans(other)))) == one - other
    assert numbers(list(intersect(spans(one), spans(other)))) == one & other
    parts = list(pieces(spans(one), limit=limit))
    assert numbers(parts) == one
    assert all(0 < part.end - part.start <= limit for part in parts)
    assert total(spans(one)) == len(one)


PLACES = st.sampled_from([0, indexes._PAGE - 20, 3 * indexes._PAGE - 5])


@settings(deadline=None)
@given(writes=st.lists(st.tuples(st.sampled_from("abc"), PLACES, st.integers(0, 30), st.integers(1, 30)), max_size=12))
def test_an_index_tells_who_wrote_last_over_pages_too(writes: list[tuple[str, int, int, int]]) -> None:
    index, expected = Index(), dict[int, str]()
    for layer in "abc":
        index.put(layer)
    for layer, place, start, length in writes:
        span = Span(place + start, place + start + length)
        new = sum(expected.get(block) != layer for block in range(span.start, span.end))
        assert index.mark(layer, span) == new
        expected |= dict.fromkeys(range(span.start, span.end), layer)
    index.merge("a", "b")
    index.merge("never there", "b")
    index.rename("c", "d")
    index.put("a")
    after = {"a": "b", "b": "b", "c": "d"}
    expected = {block: after[layer] for block, layer in expected.items()}
    whole = Span(0, 4 * indexes._PAGE)
    runs = list(index.runs(whole))
    assert [run.start for run in runs] == [0, *(run.end for run in runs[:-1])]
    assert runs[-1].end == whole.end
    held = {block: run.layer for run in runs if run.layer is not None for block in range(run.start, run.end)}
    assert held == expected
    assert numbers(list(index.held())) == set(expected)
    assert numbers(list(index.held("d"))) == {block for block, layer in expected.items() if layer == "d"}
