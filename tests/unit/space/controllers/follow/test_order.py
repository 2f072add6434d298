"""Whatever rises is written before anything falls."""

from __future__ import annotations

import pytest

from ullage.kube.kinds import Meta
from ullage.ledger.charging.stamps import FREE, Stamp
from ullage.snapshots.api.ga.translation import GA
from ullage.space.accounts import stamp_for
from ullage.space.controllers.follow.model import Bearer, Change, ordered


def change(name: str, before: Stamp | None, after: Stamp, *, charged: str = "team", to: str = "") -> Change:
    found = Bearer(kind=GA.snapshots, meta=Meta(name=name, uid=name), stamp=before, namespace=charged)
    return Change(bearer=found, stamp=after, namespace=to)


def written(changes: tuple[Change, ...]) -> list[str]:
    return [f"{one.bearer.meta.name} {one.stamp}" for one in changes]


@pytest.mark.parametrize(
    ("changes", "raises", "lowers"),
    [
        pytest.param(
            [change("a", stamp_for(5), FREE), change("b", stamp_for(1), stamp_for(6))],
            [f"b {stamp_for(6)}"],
            ["a {}"],
            id="bytes that move are booked twice for a moment",
        ),
        pytest.param([change("a", None, stamp_for(5))], [f"a {stamp_for(5)}"], [], id="what was in no sum rises"),
        pytest.param(
            [change("a", stamp_for(5), stamp_for(5), charged="", to="team")],
            [f"a {stamp_for(5)}"],
            [],
            id="so does what comes to another ledger, though its amount stays",
        ),
        pytest.param(
            [change("a", stamp_for(5, ["x"]), stamp_for(5, ["y"]))],
            [f"a {stamp_for(5, ['y'])}"],
            [],
            id="a disk that moves to another VM is one write, since nothing of the first is left",
        ),
        pytest.param(
            [change("a", stamp_for(5, ["x"]), stamp_for(9)), change("c", stamp_for(1), stamp_for(1, ["x"]))],
            [f"a {Stamp({**stamp_for(5, ['x']).cells, **stamp_for(9).cells})}", f"c {stamp_for(1, ['x'])}"],
            [f"a {stamp_for(9)}"],
            id="what rises and falls is written twice, where others still take of the account that falls",
        ),
    ],
)
def test_order(changes: list[Change], raises: list[str], lowers: list[str]) -> None:
    plan = ordered(changes)
    assert (written(plan.raises), written(plan.lowers)) == (raises, lowers)
