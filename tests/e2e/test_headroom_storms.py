"""Many at once: starts where few fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .apart import IS_BORROWED
from .engine_scene import eventually
from .headroom_scene import COST, CREATED, HeadroomScene, Tenant, headroom_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
STARTS, FIT = 50, 7


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("storms")) as made:
        yield made


def test_of_fifty_starts_at_once_exactly_those_run_that_fit(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, cpu="200", memory=str(2 * FIT * COST))
    names = [f"vm-{number}" for number in range(STARTS)]
    with ThreadPoolExecutor(8) as pool:
        assert {one.code for one in pool.map(lambda name: tenant.ask_machine(name, "Halted"), names)} == {CREATED}
    with ThreadPoolExecutor(STARTS) as pool:
        answers = list(pool.map(lambda name: tenant.set_strategy(name, "Always"), names))
    codes = Counter(one.code for one in answers)
    assert codes[200] == FIT, codes
    refused = [one for one in answers if one.code != 200]
    assert all("VM available resources are insufficient" in one.message for one in refused), refused[0].raw
    started = sorted(name for name, one in zip(names, answers, strict=True) if one.code == 200)
    eventually("those that were started run", lambda: tenant.running() == started)
    strategies = {one["spec"]["runStrategy"] for one in tenant.api.get(tenant.machines).obj["items"]}
    assert strategies == {"Always", "Halted"}
    assert len(tenant.api.get(tenant.instances).obj["items"]) == FIT
