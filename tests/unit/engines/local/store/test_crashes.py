"""Whatever a process or the power leaves half done: nothing that was acknowledged is lost, and nothing is left over."""

from __future__ import annotations

import pytest

from tests.unit.engines.local.store.crashes import CHANGES, NOW, SIZE, Both, Change, End, chain, cut_everywhere, stores_after
from tests.unit.engines.local.store.model import ZEROS, Vol, same, seen
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store


@pytest.mark.parametrize("end", [pytest.param(end, id=end.value) for end in End])
@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
def test_a_change_that_is_cut_off_anywhere_has_happened_or_has_not(change: Change, end: End) -> None:
    assert cut_everywhere(change, end=end) > 3


def source(store: Store) -> Vol:
    return chain(Both(store.create("source", size=SIZE * BLOCK), Vol((ZEROS,) * SIZE))).model


@pytest.mark.parametrize("power", [pytest.param(False, id="killed"), pytest.param(True, id="without power")])
def test_a_volume_is_made_wholly_or_not_at_all(power: bool) -> None:
    outcomes = set()
    for whole, store in stores_after(source, lambda store: store.create("new", size=SIZE * BLOCK), power=power):
        there = "new" in store.names()
        assert there or not whole
        if there:
            assert same(seen(store.volume("new")), Vol((ZEROS,) * SIZE))
        assert store._files.names("") == (["new", "source"] if there else ["source"])
        outcomes.add(there)
    assert outcomes == {False, True}


@pytest.mark.parametrize("power", [pytest.param(False, id="killed"), pytest.param(True, id="without power")])
def test_a_volume_is_deleted_wholly_or_not_at_all(power: bool) -> None:
    for whole, store in stores_after(source, lambda store: store.delete("source"), power=power):
        there = "source" in store.names()
        assert not (there and whole)
        if there:
            seen(store.volume("source"))
        assert store._files.names("") == (["source"] if there else [])


@pytest.mark.parametrize("power", [pytest.param(False, id="killed"), pytest.param(True, id="without power")])
def test_a_clone_is_there_wholly_or_the_target_is_empty(power: bool) -> None:
    def prepare(store: Store) -> None:
        source(store)
        store.volume("source").sync()
        store.create("target", size=SIZE * BLOCK)

    expected = Vol((ZEROS,) * SIZE).write(0, b"a" * 2 * BLOCK + b"b" * 6 * BLOCK).snapshot("target-base", user=False)
    outcomes = set()
    for whole, store in stores_after(
        prepare, lambda store: store.volume("target").clone_from(store.volume("source"), "s2", created=NOW), power=power
    ):
        actual = seen(store.volume("target"))
        cloned = bool(actual.snaps)
        assert cloned or not whole
        assert same(actual, expected if cloned else Vol((ZEROS,) * SIZE))
        outcomes.add(cloned)
    assert outcomes == {False, True}
