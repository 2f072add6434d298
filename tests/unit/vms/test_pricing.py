"""By which version and which settings VMs are charged: what the KubeVirt object says, and what an administrator chose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.errors import BadInput
from ullage.vms.api.kubevirts import KubeVirt
from ullage.vms.pricing import Pricing, PricingChoice, asked_of

SPEC = {"domain": {"memory": {"guest": "1Gi"}, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}
CONSOLE = 60 * 10**6
AROUND = {"v1.4.0": 210 + 8 + 8 + 2 + 16 + 100, "v1.6.0": 220 + 8 + 8 + 2 + 32 + 100}  # Mi


def kubevirt(version: str = "", **configuration: Any) -> KubeVirt:
    body = {
        "metadata": {"name": "kubevirt"},
        "spec": {"configuration": configuration},
        "status": {"observedKubeVirtVersion": version},
    }
    return msgspec.convert(body, KubeVirt)


def memory(choice: PricingChoice, found: KubeVirt | None) -> int:
    return Pricing(choice.settings_by(found)).cost_of(SPEC).memory


def expected(version: str, ratio: float = 1.0) -> int:
    around = AROUND[version] << 20
    return (1 << 30) + around + int(-(-around // 1000) * (ratio - 1.0)) * 1000 + CONSOLE


@pytest.mark.parametrize(
    ("choice", "found", "cost"),
    [
        pytest.param(PricingChoice(), kubevirt("v1.4.0"), expected("v1.4.0"), id="the version of the object"),
        pytest.param(PricingChoice(version="v1.6"), kubevirt("v1.4.0"), expected("v1.6.0"), id="a version that was chosen"),
        pytest.param(PricingChoice(), None, expected("v1.6.0"), id="no object: the newest numbers"),
        pytest.param(PricingChoice(), kubevirt("devel"), expected("v1.6.0"), id="a version that nobody released"),
        pytest.param(
            PricingChoice(overhead_ratio=2.0),
            kubevirt("v1.4.0", additionalGuestMemoryOverheadRatio="1.5"),
            expected("v1.4.0", 1.5),
            id="the ratio of the object goes first",
        ),
        pytest.param(PricingChoice(overhead_ratio=1.5), None, expected("v1.6.0", 1.5), id="a ratio that was chosen"),
        pytest.param(
            PricingChoice(version="v1.4.0"),
            kubevirt("v1.6.0", virtualMachineOptions={"disableSerialConsoleLog": {}}),
            expected("v1.4.0") - CONSOLE,
            id="settings are those of the object, whatever version was chosen",
        ),
        pytest.param(
            PricingChoice(version="seed"), kubevirt("v1.4.0"), (1124 + 180 + 8 + 8 + 2) << 20, id="the formula of the design"
        ),
    ],
)
def test_which_version_and_settings_count(choice: PricingChoice, found: KubeVirt | None, cost: int) -> None:
    assert memory(choice, found) == cost


def test_what_the_owner_asks_for_is_the_guest_alone() -> None:
    asked = asked_of(SPEC)
    assert (asked.cpu, asked.memory, asked.parts) == (1000, 1 << 30, ())


@pytest.mark.parametrize("version", ["v0.52.0", "one", ""])
def test_no_version_is_refused_with_its_option(version: str) -> None:
    with pytest.raises(BadInput, match=r"^--kubevirt .*; so are auto and seed$"):
        PricingChoice(version=version)
