"""The arithmetic of pods by itself; what it makes of JSON, `standalone/apiserver/admission/quotas/test_pods.py` tells."""

from __future__ import annotations

import pytest

from ullage.pods.resources import Amounts, InitContainer, larger, parsed, summed, total
from ullage.quantity import QuantityError


def cpu(text: str) -> Amounts:
    return parsed({"cpu": text})


def shown(found: Amounts) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in found.items()}


@pytest.mark.parametrize(
    ("containers", "inits", "found"),
    [
        pytest.param([], [], {}, id="nobody says anything"),
        pytest.param([cpu("1"), cpu("500m")], [], {"cpu": "1500m"}, id="containers are added up"),
        pytest.param([cpu("1")], [InitContainer(cpu("3"), stays=False)], {"cpu": "3"}, id="the largest init container"),
        pytest.param([cpu("1")], [InitContainer(cpu("3"), stays=True)], {"cpu": "4"}, id="one that stays is beside the others"),
        pytest.param(
            [cpu("1")],
            [InitContainer(cpu("1"), stays=True), InitContainer(cpu("1"), stays=True), InitContainer(cpu("2"), stays=False)],
            {"cpu": "4"},
            id="an init container runs beside all that stay before it",
        ),
    ],
)
def test_what_runs_at_once_is_added_up(containers: list[Amounts], inits: list[InitContainer], found: dict[str, str]) -> None:
    assert shown(total("limits", containers, inits)) == found


def test_the_pod_s_own_word_stands_in_place_of_the_sum_for_what_it_may_say() -> None:
    own = parsed({"cpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"})
    assert shown(total("limits", [cpu("1")], whole=own)) == {"cpu": "2", "hugepages-2Mi": "4Mi"}


def test_overhead_is_on_top_of_a_limit_and_makes_none() -> None:
    overhead = parsed({"cpu": "250m", "memory": "64Mi"})
    assert shown(total("requests", [cpu("1")], overhead=overhead)) == {"cpu": "1250m", "memory": "64Mi"}
    assert shown(total("limits", [cpu("1")], overhead=overhead)) == {"cpu": "1250m"}


def test_nothing_that_was_handed_over_is_changed() -> None:
    one, other = cpu("1"), parsed({"cpu": "2", "memory": "1Gi"})
    assert shown(larger(one, other)) == {"cpu": "2", "memory": "1Gi"}
    assert shown(summed([one, other])) == {"cpu": "3", "memory": "1Gi"}
    assert shown(one) == {"cpu": "1"}


def test_what_is_no_amount_is_an_error() -> None:
    with pytest.raises(QuantityError):
        parsed({"cpu": "lots"})
