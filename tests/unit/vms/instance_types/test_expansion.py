"""What an instance type and a preference make of a template, as KubeVirt v1.6 does it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.errors import BadInput
from ullage.vms.api.instance_types import InstanceTypeSpec, PreferenceSpec
from ullage.vms.instance_types.expansion import expanded

Json = dict[str, Any]
LARGE: Json = {"cpu": {"guest": 8}, "memory": {"guest": "32Gi"}}


def machine(domain: Json | None = None, annotations: dict[str, str] | None = None) -> Json:
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"domain": domain or {"devices": {}}}}
    return {"spec": {"instancetype": {"name": "u1"}, "template": template}}


def domain_of(body: Json, kind: Json | None = None, preference: Json | None = None) -> Json:
    found: Json = template_of(body, kind, preference)["spec"]["domain"]
    return found


def template_of(body: Json, kind: Json | None = None, preference: Json | None = None) -> Json:
    made = expanded(
        body,
        msgspec.convert(kind, InstanceTypeSpec) if kind is not None else None,
        msgspec.convert(preference, PreferenceSpec) if preference is not None else None,
    )
    found: Json = made["spec"]["template"]
    return found


def prefers(topology: str, **options: Any) -> Json:
    cpu: Json = {"preferredCPUTopology": topology}
    return {"cpu": {**cpu, "spreadOptions": options}} if options else {"cpu": cpu}


@pytest.mark.parametrize(
    ("vcpus", "preference", "topology"),
    [
        pytest.param(1, prefers("cores"), (1, 1, 1), id="one vCPU has one of each"),
        pytest.param(8, None, (8, 1, 1), id="sockets where nothing is preferred"),
        pytest.param(8, prefers("sockets"), (8, 1, 1), id="sockets"),
        pytest.param(8, prefers("preferAny"), (8, 1, 1), id="any, as it was once called"),
        pytest.param(8, prefers("cores"), (1, 8, 1), id="cores"),
        pytest.param(8, prefers("preferCores"), (1, 8, 1), id="cores, as they were once called"),
        pytest.param(8, prefers("threads"), (1, 1, 8), id="threads"),
        pytest.param(8, prefers("spread"), (4, 2, 1), id="spread over sockets and two cores each"),
        pytest.param(8, prefers("spread", ratio=4), (2, 4, 1), id="spread with four cores each"),
        pytest.param(8, prefers("spread", across="CoresThreads"), (1, 4, 2), id="spread over cores and threads"),
        pytest.param(8, prefers("spread", across="SocketsCoresThreads"), (2, 2, 2), id="spread over all three"),
        pytest.param(8, {**prefers("spread"), "preferSpreadSocketToCoreRatio": 8}, (1, 8, 1), id="the ratio of older versions"),
    ],
)
def test_a_preference_chooses_the_topology_and_never_the_number_of_vcpus(
    vcpus: int, preference: Json | None, topology: tuple[int, int, int]
) -> None:
    kind = {**LARGE, "cpu": {"guest": vcpus}}
    cpu = domain_of(machine(), kind, preference)["cpu"]
    assert (cpu["sockets"], cpu["cores"], cpu["threads"]) == topology
    assert cpu["sockets"] * cpu["cores"] * cpu["threads"] == vcpus


@pytest.mark.parametrize(
    ("kind", "preference", "field"),
    [
        pytest.param({**LARGE, "cpu": {"guest": 7}}, prefers("spread"), "spec.preference", id="vCPUs that cannot be spread"),
        pytest.param(LARGE, prefers("spread", ratio=0), "spec.preference", id="a ratio of 0"),
        pytest.param(LARGE, prefers("spread", across="Dies"), "spec.preference", id="a spread that is not known"),
        pytest.param(LARGE, prefers("dies"), "spec.preference", id="a topology that is not known"),
        pytest.param({**LARGE, "cpu": {}}, None, "spec.instancetype", id="no vCPUs"),
        pytest.param({**LARGE, "cpu": {"guest": 2**40}}, None, "spec.instancetype", id="more vCPUs than there can be"),
        pytest.param({**LARGE, "memory": {}}, None, "spec.instancetype", id="no memory"),
        pytest.param({**LARGE, "memory": {"guest": "much"}}, None, "spec.instancetype", id="memory that is no amount"),
        pytest.param({**LARGE, "memory": {"guest": "1e999"}}, None, "spec.instancetype", id="memory without an end"),
        pytest.param(
            {**LARGE, "memory": {"guest": "1Gi", "overcommitPercent": 101}},
            None,
            "spec.instancetype",
            id="an overcommitment of more than all",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_the_field_that_names_it(kind: Json, preference: Json | None, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        template_of(machine(), kind, preference)
    assert caught.value.where == field


def test_an_instance_type_gives_all_that_sizes_the_pod() -> None:
    kind = {
        "cpu": {"guest": 2, "dedicatedCPUPlacement": True, "isolateEmulatorThread": True},
        "memory": {"guest": "4Gi", "hugepages": {"pageSize": "1Gi"}},
        "gpus": [{"name": "one", "deviceName": "example.com/gpu"}],
        "hostDevices": [{"name": "two", "deviceName": "example.com/nic"}],
        "ioThreadsPolicy": "shared",
        "launchSecurity": {"sev": {}},
        "annotations": {"hooks.kubevirt.io/hookSidecars": "[{}]"},
    }
    made = template_of(
        machine({"devices": {"disks": [{"name": "root"}]}, "ioThreads": {"supplementalPoolThreadCount": 2}}), kind
    )
    domain = made["spec"]["domain"]
    assert domain["cpu"] == {
        "dedicatedCpuPlacement": True,
        "isolateEmulatorThread": True,
        "sockets": 2,
        "cores": 1,
        "threads": 1,
    }
    assert domain["memory"] == {"guest": "4Gi", "hugepages": {"pageSize": "1Gi"}}
    assert (domain["devices"]["gpus"], domain["devices"]["hostDevices"]) == (kind["gpus"], kind["hostDevices"])
    assert (domain["ioThreadsPolicy"], domain["launchSecurity"]) == ("shared", {"sev": {}})
    assert domain["devices"]["disks"] == [{"name": "root"}]
    assert domain["ioThreads"] == {"supplementalPoolThreadCount": 2}
    assert made["metadata"]["annotations"] == kind["annotations"]


@pytest.mark.parametrize(
    ("percent", "request_"),
    [
        pytest.param(0, None, id="none"),
        pytest.param(50, 2147483648, id="half"),
        pytest.param(15, 3650722304, id="15 per cent, in floating-point numbers of 32 bits"),
        pytest.param(33, 2877627904, id="33 per cent, in the same"),
    ],
)
def test_an_instance_type_that_overcommits_asks_for_less_memory(percent: int, request_: int | None) -> None:
    kind = {**LARGE, "memory": {"guest": "4Gi", "overcommitPercent": percent}}
    asked = domain_of(machine(), kind)["resources"].get("requests", {}).get("memory")
    assert asked == (None if request_ is None else str(request_))


def test_a_preference_fills_in_what_the_template_leaves_out() -> None:
    devices = {
        "preferredAutoattachGraphicsDevice": False,
        "preferredAutoattachSerialConsole": False,
        "preferredTPM": {"persistent": True},
    }
    preference = {"devices": devices, "annotations": {"a": "theirs", "b": "theirs"}}
    made = template_of(machine({"devices": {"autoattachSerialConsole": True}}, {"a": "ours"}), None, preference)
    assert made["spec"]["domain"]["devices"] == {
        "autoattachGraphicsDevice": False,
        "autoattachSerialConsole": True,
        "tpm": {"persistent": True},
    }
    assert made["metadata"]["annotations"] == {"a": "ours", "b": "theirs"}
    assert "cpu" not in made["spec"]["domain"], "a preference alone gives no CPUs"


def test_the_body_that_was_given_stays_as_it_is() -> None:
    body = machine({"devices": {"disks": []}})
    before = msgspec.json.encode(body)
    template_of(body, LARGE, prefers("cores"))
    assert msgspec.json.encode(body) == before
