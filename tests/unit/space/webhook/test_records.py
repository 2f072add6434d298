"""Records: they pay only in place of their snapshots, and nobody but us says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.space.scene import OURS, TEAM, Scene, record_of, simulated
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect

BOTH = pytest.mark.parametrize("dialect", [pytest.param(GA, id="GA"), pytest.param(PROTOTYPE, id="prototype")])
STAMP = '{"snapshots/namespace":{"storage":"4Ki"}}'


def name_of(record: dict[str, Any]) -> str:
    return str(record["metadata"]["name"])


@BOTH
@simulated
async def test_a_new_record_pays_nothing_and_whoever_says_otherwise_is_not_heard(
    scene: Scene, dialect: Dialect[Any, Any]
) -> None:
    record = record_of(dialect, "u1", "a", takes=STAMP, charged_namespace="other")
    async with scene.served():
        assert (await scene.submit(dialect.records, record)).allowed
    assert set(scene.marks(dialect.records, name_of(record))) <= {"source-volume"}


@BOTH
@simulated
async def test_what_stays_is_booked_in_place_of_its_snapshot_past_the_limit(scene: Scene, dialect: Dialect[Any, Any]) -> None:
    scene.limits(all=10)
    record = record_of(dialect, "u1", "a", cut=True)
    async with scene.served():
        assert (await scene.submit(dialect.records, record, user=OURS)).allowed
        booked = await scene.annotate(dialect.records, name_of(record), user=OURS, takes=STAMP, charged_namespace=TEAM)
        assert booked.allowed
        assert (await scene.annotate(dialect.records, name_of(record), takes="{}", charged_namespace=None)).allowed
    marks = scene.marks(dialect.records, name_of(record))
    assert (marks["takes"], marks["charged-namespace"]) == (STAMP, TEAM)
