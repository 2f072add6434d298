"""The formula of the design, with the arithmetic written out."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.errors import BadInput
from ullage.vms.launcher.versions import GI, MI
from ullage.vms.pricing import Cost, Pricing
from ullage.vms.seed_cost import vcpus_of

Json = dict[str, Any]
TI = GI << 10
cost_of = Pricing(None).cost_of


def vm(cpus: str | None = None, memory: str | None = None, /, *, guest: str | None = None, **domain: Any) -> Json:
    limits = {key: value for key, value in (("cpu", cpus), ("memory", memory)) if value is not None}
    made: Json = {"resources": {"limits": limits}, **domain}
    if guest is not None:
        made["memory"] = {"guest": guest}
    return {"domain": made}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        pytest.param(
            vm("1", "1Gi"), 1000, (1024 + 100 + 180 + 1 * 8 + 8 + 2) * MI, id="1 CPU, 1Gi: the guest gets all, and 100Mi on top"
        ),
        pytest.param(
            vm("1", "1Gi", guest="924Mi"), 1000, (1024 + 180 + 1 * 8 + 8 + 2) * MI, id="1 CPU, 1Gi: 100Mi are left to qemu"
        ),
        pytest.param(
            vm("1", "1Gi", guest="900Mi"), 1000, (1024 + 180 + 1 * 8 + 8 + 2) * MI, id="1 CPU, 1Gi: more than that is left"
        ),
        pytest.param(
            vm("1", "1Gi", guest="1000Mi"), 1000, (1100 + 180 + 1 * 8 + 8 + 2) * MI, id="1 CPU, 1Gi: less than that is left"
        ),
        pytest.param(vm("8", "16Gi"), 8000, (16384 + 100 + 180 + 8 * 8 + 8 + 32) * MI, id="8 CPUs, 16Gi"),
        pytest.param(vm("0", "1Gi"), 1000, (1024 + 100 + 180 + 1 * 8 + 8 + 2) * MI, id="no CPU is one vCPU: 0 limits nothing"),
        pytest.param(
            vm("0", "1Gi", cpu={"cores": 64}), 64_000, (1124 + 180 + 64 * 8 + 8 + 2) * MI, id="64 cores and a limit of 0 are 64"
        ),
        pytest.param(
            {"domain": {"resources": {"limits": {"memory": "0"}, "requests": {"memory": "64Gi"}}}},
            1000,
            (65536 + 100 + 180 + 1 * 8 + 8 + 128) * MI,
            id="a limit of 0 does not hide the memory that is asked for",
        ),
        pytest.param(vm(None, "1Gi"), 1000, (1024 + 100 + 180 + 1 * 8 + 8 + 2) * MI, id="no limit for CPUs: its one vCPU"),
        pytest.param(vm("1500m", "1Gi"), 1500, (1024 + 100 + 180 + 2 * 8 + 8 + 2) * MI, id="one and a half CPUs are two vCPUs"),
        pytest.param(
            vm("1", "1Gi", cpu_topology={}), 1000, (1024 + 100 + 180 + 1 * 8 + 8 + 2) * MI, id="what nobody knows is ignored"
        ),
        pytest.param(
            vm("2", "1Gi", cpu={"cores": 2, "sockets": 2, "threads": 2}),
            2000,
            (1024 + 100 + 180 + 8 * 8 + 8 + 2) * MI,
            id="vCPUs come from the topology",
        ),
        pytest.param(
            vm("1", "12Ti"), 1000, 12 * TI + (100 + 180 + 1 * 8 + 8 + 12 * 2048) * MI, id="a huge memory has huge page tables"
        ),
        pytest.param(vm("1", "1000"), 1000, 1000 + (100 + 180 + 1 * 8 + 8) * MI + 2, id="nothing is rounded down: 1000 / 512"),
        pytest.param(
            {"domain": {"memory": {"guest": "1Gi"}}},
            1000,
            (1024 + 100 + 180 + 1 * 8 + 8 + 2) * MI,
            id="no limits, only a guest",
        ),
        pytest.param({}, 1000, (100 + 180 + 1 * 8 + 8) * MI, id="nothing at all"),
    ],
)
def test_what_the_design_says(spec: Json, cpu: int, memory: int) -> None:
    found = cost_of(spec)
    assert (found.cpu, found.memory) == (cpu, memory)
    assert sum(part.memory for part in found.parts) == memory


def test_the_parts_are_told() -> None:
    found = cost_of(vm("2", "1Gi", guest="924Mi"))
    assert [(part.name, part.memory // MI) for part in found.parts] == [
        ("memory", 1024),
        ("processes beside the guest", 180),
        ("2 vCPUs", 16),
        ("IO thread", 8),
        ("page tables", 2),
    ]
    assert found == Cost(2000, 1230 * MI)


@pytest.mark.parametrize("said", [{"cores": 0}, {"cores": "two"}, {}, None], ids=str)
def test_at_least_one_vcpu(said: object) -> None:
    assert vcpus_of({"cpu": said}) == 1


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ("ten", "quantities must match the regular expression"),
        ("-1Gi", "an amount is not negative"),
        ("1e999", "an amount is no more than 9223372036854775807"),
    ],
    ids=["no quantity", "negative", "more than there can be"],
)
def test_what_is_no_amount_is_refused_with_its_field(memory: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        cost_of(vm("1", memory))
    assert str(caught.value).startswith("spec.template.spec.domain.resources.limits.memory")
