"""What was refused is asked for later and later, whoever asks."""

from __future__ import annotations

from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.refusals import Refusals

ONE, OTHER = Key("shop", "one"), Key("bank", "other")


def test_each_no_makes_the_next_wait_longer_until_it_is_granted() -> None:
    found = Refusals(Backoff(first=1.0, cap=3.0))
    assert found.still(ONE, 0.0) is None
    assert [found.add(ONE, "no", 10.0).until for _ in range(4)] == [11.0, 12.0, 13.0, 13.0]
    last = found.still(ONE, 12.9)
    assert last is not None
    assert (last.message, last.count) == ("no", 4)
    assert found.still(ONE, 13.0) is None
    assert found.add(ONE, "still no", 13.0).count == 5  # that the time is over does not make it a first one
    found.end(ONE)
    assert found.said(ONE) == ""
    assert found.add(ONE, "no", 20.0).until == 21.0


def test_another_wish_is_asked_for_at_once() -> None:
    found = Refusals(Backoff(first=5.0, cap=60.0))
    found.add(ONE, "no", 0.0, about=1)
    found.add(ONE, "no", 0.0, about=1)
    assert found.still(ONE, 1.0, about=1) is not None
    assert found.still(ONE, 1.0, about=2) is None
    assert found.add(ONE, "no", 1.0, about=2).until == 6.0


def test_some_are_hurried_and_the_others_wait() -> None:
    found = Refusals(Backoff(first=5.0, cap=60.0))
    found.add(ONE, "no", 0.0)
    found.add(OTHER, "no", 0.0)
    assert found.hurry(lambda key: key.namespace == "shop") == [ONE]
    assert (found.still(ONE, 1.0), found.still(OTHER, 1.0) is not None) == (None, True)
    assert found.add(ONE, "no", 1.0).count == 2
