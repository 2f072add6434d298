"""How sizes are known, counted as objects come, change and go."""

from __future__ import annotations

import pytest

from ullage.kube.kinds import Meta, Object
from ullage.ledger.charging.methods import METHODS
from ullage.ledger.charging.stamps import AT_MOST, ESTIMATED_BY, STAMP
from ullage.ledger.keys import ledger_name
from ullage.space.estimate_counts import EstimateCounts, excess_of, method_of

PAYS = '{"snapshots/namespace":{"storage":"5"}}'


def snapshot(method: str = "", stamp: str | None = PAYS, namespace: str = "team-a") -> Object:
    given = {ESTIMATED_BY: method, STAMP: stamp}
    return Object(metadata=Meta(name="a", namespace=namespace, annotations={k: v for k, v in given.items() if v}))


@pytest.mark.parametrize(
    ("found", "method"),
    [
        pytest.param(snapshot("capacity"), "capacity", id="it pays"),
        pytest.param(snapshot("capacity", "{}"), "", id="another object pays for it"),
        pytest.param(snapshot("capacity", None), "", id="nobody has stamped it yet"),
        *(pytest.param(snapshot(one), one, id=f"the method {one}") for one in METHODS),
        pytest.param(snapshot("a guess"), "", id="somebody wrote there what is no method"),
        pytest.param(snapshot(), "", id="nobody has said"),
    ],
)
def test_the_method_of_an_object(found: Object, method: str) -> None:
    assert method_of(found) == method


class Told:
    """A cache that a test tells of changes."""

    def handle(self, handler: object) -> None:
        self.tell = handler


def test_counts_follow_objects() -> None:
    counts, cache, heard = EstimateCounts(), Told(), list[str]()
    counts.handle(heard.append)
    counts.follow(cache, lambda obj: ledger_name(obj.metadata.namespace))  # type: ignore[arg-type]
    first, second, other = snapshot("capacity"), snapshot("engine-head"), snapshot("measured", namespace="team-b")
    for old, new in ((None, first), (None, first), (None, other), (first, second), (second, second)):
        cache.tell(old, new)  # type: ignore[operator]
    assert counts.of("team-a") == {"capacity": 1, "engine-head": 1}
    assert counts.of("team-b") == {"measured": 1}
    assert heard == ["team-a", "team-a", "team-b", "team-a", "team-a"], "what changes nothing is not told"
    for gone in (first, second):
        cache.tell(gone, None)  # type: ignore[operator]
    assert counts.of("team-a") == {}


def estimated(most: str, *, takes: str = "3", by: str = "last-snapshot") -> Object:
    stamp = f'{{"snapshots/namespace":{{"storage":"{takes}"}}}}'
    return Object(metadata=Meta(name="a", namespace="team-a", annotations={ESTIMATED_BY: by, STAMP: stamp, AT_MOST: most}))


@pytest.mark.parametrize(
    ("found", "excess"),
    [
        pytest.param(estimated("10"), 7, id="what it may take more than it is stamped with"),
        pytest.param(estimated("3"), 0, id="it cannot take more"),
        pytest.param(estimated("2"), 0, id="never less than nothing"),
        pytest.param(estimated("10", by="allocated-blocks"), 0, id="its size is known by now"),
        pytest.param(estimated("ten"), 0, id="no number"),
        pytest.param(estimated("9" * 20), 0, id="a number that nobody has written"),
        pytest.param(estimated("10", takes="no"), 0, id="a stamp that cannot be read"),
        pytest.param(snapshot("last-snapshot"), 0, id="nobody says what it takes at most"),
    ],
)
def test_by_how_much_an_object_may_pass(found: Object, excess: int) -> None:
    assert excess_of(found) == excess


def test_what_may_pass_limits_is_summed_by_namespace_until_sizes_are_known() -> None:
    counts, cache = EstimateCounts(), Told()
    heard = list[str]()
    counts.handle(heard.append)
    counts.follow(cache, lambda obj: ledger_name(obj.metadata.namespace))  # type: ignore[arg-type]
    first, second = estimated("10"), estimated("20")
    known = estimated("20", by="allocated-blocks")
    for old, new in ((None, first), (None, second)):
        cache.tell(old, new)  # type: ignore[operator]
    assert counts.may_pass_by("team-a") == 7 + 17
    cache.tell(second, known)  # type: ignore[operator]
    assert counts.may_pass_by("team-a") == 7
    cache.tell(first, estimated("10", takes="4"))  # type: ignore[operator]
    assert counts.may_pass_by("team-a") == 6
    cache.tell(estimated("10", takes="4"), None)  # type: ignore[operator]
    assert counts.may_pass_by("team-a") == counts.may_pass_by("team-b") == 0
    assert set(heard) == {"team-a"}, "who shows it is told"
    told = len(heard)
    cache.tell(known, known)  # type: ignore[operator]
    assert len(heard) == told


def test_what_is_in_no_ledger_is_not_counted() -> None:
    counts, cache = EstimateCounts(), Told()
    counts.follow(cache, lambda obj: "")  # type: ignore[arg-type]
    cache.tell(None, snapshot("capacity"))  # type: ignore[operator]
    assert counts.of("team-a") == {}
