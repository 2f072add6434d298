"""What somebody else undoes is written again, but not as fast as the two can."""

from __future__ import annotations

from ullage.kube.backoff import Backoff
from ullage.kube.controller.rewrites import Rewrites


def test_what_is_undone_each_time_is_written_later_and_later() -> None:
    rewrites: Rewrites[str] = Rewrites(Backoff(first=1.0, cap=8.0))
    now, waited = 0.0, []
    for _ in range(8):
        wait = rewrites.wait("a", "told", now)
        waited.append(wait)
        now += wait
        rewrites.wrote("a", "told", now)
    assert waited == [0, 0, 1, 2, 4, 8, 8, 8]


def test_other_words_and_other_objects_do_not_wait() -> None:
    rewrites: Rewrites[str] = Rewrites()
    for _ in range(5):
        rewrites.wrote("a", "told", 0.0)
    assert rewrites.wait("a", "told", 0.0) > 0
    assert rewrites.wait("a", "other", 0.0) == 0.0
    assert rewrites.wait("b", "told", 0.0) == 0.0


def test_what_is_forgotten_begins_anew() -> None:
    rewrites: Rewrites[str] = Rewrites()
    for _ in range(5):
        rewrites.wrote("a", "told", 0.0)
    rewrites.forget("a")
    assert rewrites.wait("a", "told", 0.0) == 0.0
