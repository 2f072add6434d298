"""The quota of a project for its members, and what more machines would make of it. All sums are written out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.projects.builders import details, quota, usage
from tests.unit.projects.routes.scene import MEMBER, STRANGER, Api
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition
from ullage.projects.api.catalogues import CATALOGUES, CatalogueData, CatalogueSpec, MachineCatalogue
from ullage.projects.api.quotas import ResourceQuotaStatus

OWN, CALCULATED = "/api/v2/projects/abc/quota", "/api/v2/projects/abc/quotacalculation"


def api(limits: str = "5 10Gi 100Gi", used: str = "2 4Gi 40Gi") -> Api:
    """`5 10Gi 100Gi`: cpu, memory and storage; `-` for none."""
    given = {name: one for name, one in zip(("cpu", "memory", "storage"), limits.split(), strict=True) if one != "-"}
    status = ResourceQuotaStatus(global_usage=usage(*used.split()))
    return Api().put(quota("abc", details(**given), status=status)).project("abc", "Alphabet")


def stale(message: str, status: Any = "False") -> Api:
    """Of a quota whose figures are not all of now."""
    fresh = Condition(type="UsageFresh", status=status, reason="SeedUnreachable", message=message)
    said = ResourceQuotaStatus(global_usage=usage("2", "4Gi", "40Gi"), conditions=(fresh,))
    return Api().put(quota("abc", details(cpu="5"), status=said))


def machines(text: str) -> dict[str, Any]:
    """`3 x 2 4 20`: replicas, cores, GB of memory, GB of disk."""
    count, size = text.split(" x ")
    cpu, memory, disk = (json.loads(one) for one in size.split())
    return {"replicas": int(count), "diskSizeGB": disk, "size": {"cpu": cpu, "memory": memory}}


async def test_a_member_sees_the_quota_of_the_project() -> None:
    assert await api().get(OWN, token=MEMBER) == {
        "name": "project-abc",
        "subjectName": "abc",
        "subjectKind": "project",
        "subjectHumanReadableName": "Alphabet",
        "isDefault": False,
        "quota": {"cpu": 5, "memory": 10.0, "storage": 100.0},
        "status": {"globalUsage": {"cpu": 2, "memory": 4.0, "storage": 40.0}},
    }


async def test_without_a_quota_there_is_an_empty_object() -> None:
    assert await Api().get(OWN, token=MEMBER) == {}
    answered = await Api().ask("POST", CALCULATED, machines("1 x 1 1 1"), token=MEMBER)
    assert (answered.code, answered.body) == (200, b"{}")


async def test_one_of_the_name_that_is_another_project_s_is_not_shown() -> None:
    assert await Api().put(quota("other", name="project-abc")).get(OWN, token=MEMBER) == {}


@pytest.mark.parametrize(
    ("token", "url", "code"),
    [
        pytest.param(MEMBER, "/api/v2/projects/xyz/quota", 403, id="a project that is not his"),
        pytest.param(MEMBER, "/api/v2/projects/none/quota", 403, id="one that is not there looks the same"),
        pytest.param(STRANGER, OWN, 403, id="no member"),
        pytest.param(None, OWN, 401, id="no token"),
        pytest.param(MEMBER, "/api/v2/projects/A%20B/quota", 404, id="no id"),
    ],
)
async def test_nobody_else_sees_it(token: str | None, url: str, code: int) -> None:
    found = api()
    assert (await found.ask("GET", url, token=token)).code == code
    if code != 404:
        calculation = await found.ask("POST", f"{url}calculation", machines("1 x 1 1 1"), token=token)
        assert calculation.code == code


CPU = "Calculated cpu ({}) exceeds resource quota ({})\n"
MEMORY = "Calculated memory ({}) exceeds resource quota ({})\n"
DISK = "Calculated disk size ({}) exceeds resource quota ({})\n"


@pytest.mark.parametrize(
    ("limits", "used", "added", "replaced", "calculated", "message"),
    [
        pytest.param("5 - -", "2 0 0", "3 x 1 0 0", "", {"cpu": 5}, "", id="exactly full fits"),
        pytest.param("5 - -", "2 0 0", "3 x 2 0 0", "", {"cpu": 8}, CPU.format(8, 5), id="one line in the peer's words"),
        pytest.param(
            "5 10Gi 100Gi",
            "2 4Gi 40Gi",
            "3 x 2 4 30",
            "",
            {"cpu": 8, "memory": 16.0, "storage": 130.0},
            CPU.format(8, 5) + MEMORY.format("16Gi", "10Gi") + DISK.format("130Gi", "100Gi"),
            id="a line for each",
        ),
        pytest.param("5 - -", "4 0 0", "2 x 2 0 0", "2 x 2 0 0", {"cpu": 4}, "", id="what is replaced makes room"),
        pytest.param("5 - -", "4 0 0", "3 x 2 0 0", "2 x 2 0 0", {"cpu": 6}, CPU.format(6, 5), id="and no more than that"),
        pytest.param("5 - -", "1 0 0", "1 x 5 0 0", "9 x 9 0 0", {"cpu": 5}, "", id="never more than is used"),
        pytest.param("- 10Gi -", "0 5Gi 0", "1 x 0 5 0", "", {"cpu": 0, "memory": 10.0}, "", id="a GB is a Gi"),
        pytest.param(
            "- 10G -",
            "0 0 0",
            "1 x 0 10 0",
            "",
            {"cpu": 0, "memory": 10.0},
            MEMORY.format("10Gi", "9.31Gi"),
            id="10 GB are more than 10G",
        ),
        pytest.param(
            "- - 100G",
            "0 0 50G",
            "1 x 0 0 46.56",
            "",
            {"cpu": 0, "storage": 93.13},
            "",
            id="G and GB together fit",
        ),
        pytest.param(
            "- - 100G",
            "0 0 50G",
            "1 x 0 0 46.57",
            "",
            {"cpu": 0, "storage": 93.14},
            DISK.format("93.14Gi", "93.13Gi"),
            id="or do not, by a hundredth",
        ),
        pytest.param("- 1Ti -", "0 1000Gi 0", "12 x 0 2 0", "", {"cpu": 0, "memory": 1024.0}, "", id="Ti and GB"),
        pytest.param("- - -", "9 9Gi 0", "9 x 9 9 9", "", {"cpu": 90, "memory": 90.0, "storage": 81.0}, "", id="no limit"),
        pytest.param("0 - -", "0 0 0", "1 x 1 1 1", "", {"cpu": 1, "memory": 1.0, "storage": 1.0}, CPU.format(1, 0), id="none"),
        pytest.param("1 - -", "0 0 0", "3 x 0.5 0 0", "", {"cpu": 2}, CPU.format("1500m", 1), id="halves of cores"),
        pytest.param("5 - -", "7 0 0", "0 x 0 0 0", "", {"cpu": 7}, CPU.format(7, 5), id="it is over already"),
        pytest.param(
            "5 - 100Gi",
            "4 0 80Gi",
            "2 x 2 0 50",
            "2 x 2 0 40",
            {"cpu": 4, "storage": 100.0},
            "",
            id="larger disks in place of smaller ones",
        ),
        pytest.param(
            "5 - 100Gi",
            "4 0 80Gi",
            "2 x 2 0 50.01",
            "2 x 2 0 40",
            {"cpu": 4, "storage": 100.02},
            DISK.format("100.02Gi", "100Gi"),
            id="which are a little too large",
        ),
        pytest.param("5 - -", "4 0 0", "1 x 2 0 0", "1 x 1 8 0", {"cpu": 5}, "", id="by another size"),
        pytest.param(
            "- 20G -",
            "0 10Gi 0",
            "1 x 0 16 0",
            "1 x 0 8 0",
            {"cpu": 0, "memory": 18.0},
            "",
            id="18 GB fit into 20G",
        ),
        pytest.param(
            "- 20G -",
            "0 10Gi 0",
            "1 x 0 16 0",
            "1 x 0 7 0",
            {"cpu": 0, "memory": 19.0},
            MEMORY.format("19Gi", "18.62Gi"),
            id="19 GB do not",
        ),
        pytest.param("1k - -", "999 0 0", "2 x 1 0 0", "", {"cpu": 1001}, CPU.format(1001, 1000), id="1k are 1000"),
    ],
)
async def test_what_would_be_used(
    limits: str, used: str, added: str, replaced: str, calculated: dict[str, Any], message: str
) -> None:
    body = machines(added) | ({"replacedResources": machines(replaced)} if replaced else {})
    found = api(limits, used)
    answered = await found.ask("POST", CALCULATED, body, token=MEMBER)
    shown = json.loads(answered.body)
    assert (answered.code, shown["calculatedQuota"], shown.get("message", "")) == (200, calculated, message)
    assert shown["resourceQuota"] == (await found.get(OWN))["quota"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({}, "Object missing required field `replicas`", id="nothing"),
        pytest.param({"replicas": -1}, "replicas: -1: 0 to 1000000 are allowed", id="fewer than none"),
        pytest.param({"replicas": 10**9}, "replicas: 1000000000: 0 to 1000000 are allowed", id="too many"),
        pytest.param({"replicas": 1, "diskSizeGB": -1}, "diskSizeGB: -1: a number of GB", id="a disk of less than nothing"),
        pytest.param({"replicas": 1, "size": {"cpu": 0.0001}}, "size.cpu: 0.0001: a number of cores", id="too fine"),
        pytest.param({"replicas": 1, "size": {"cpus": 2}}, "size: Object contains unknown field `cpus`", id="unknown"),
        pytest.param(
            {"replicas": 1, "replacedResources": {"replicas": -2}},
            "replacedResources.replicas: -2: 0 to 1000000 are allowed",
            id="in what is replaced",
        ),
        pytest.param(
            {"replicas": 1, "replacedResources": {"replicas": 1, "diskSizeGB": 0.001}},
            "replacedResources.diskSizeGB: 0.001: a number of GB",
            id="a disk of what is replaced",
        ),
    ],
)
async def test_what_cannot_be_calculated_is_answered_400_with_the_field(body: Any, message: str) -> None:
    for found in (api(), Api()):
        answered = await found.ask("POST", CALCULATED, body, token=MEMBER)
        assert answered.code == 400
        assert answered.status["message"].startswith(message), answered.status["message"]


# In the words of KKP's forms: a size with all that the dashboard sends along, and what two machines of it take.
SIZES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Alibaba", {"alibabaInstanceType": {"id": "ecs.c6", "cpuCoreCount": 2, "memorySize": 4.5}, "diskSizeGB": 20}, {}),
    ("Anexia", {"anexiaNodeSpec": {"vlanID": "v", "cpus": 2, "memory": 4608, "disks": [{"size": 12}, {"size": 8}]}}, {}),
    ("Anexia, one disk", {"anexiaNodeSpec": {"cpus": 2, "memory": 4608, "diskSize": 20, "disks": [{"size": 99}]}}, {}),
    ("AWS", {"awsSize": {"name": "t3.medium", "memory": 4.5, "vcpus": 2, "gpus": 0, "price": 0.05}, "diskSizeGB": 20}, {}),
    (
        "Azure",
        {
            "azureSize": {
                "name": "Standard_B2s",
                "numberOfCores": 2,
                "memoryInMB": 4608,
                "osDiskSizeInMB": 10240,
                "resourceDiskSizeInMB": 10240,
            },
            "diskSizeGB": 99,
        },
        {},
    ),
    ("DigitalOcean", {"doSize": {"slug": "s-2vcpu", "memory": 4608, "vcpus": 2, "disk": 20, "regions": ["fra1"]}}, {}),
    ("Google", {"gcpSize": {"name": "n1", "memory": 4608, "vcpus": 2}, "diskSizeGB": 20}, {}),
    ("Hetzner", {"hetznerSize": {"id": 1, "name": "cx21", "cores": 2, "memory": 4.5, "disk": 20}}, {}),
    (
        "KubeVirt",
        {"kubevirtNodeSize": {"cpus": "2", "memory": "4608Mi", "primaryDiskSize": "10", "secondaryDisks": [{"size": "10Gi"}]}},
        {},
    ),
    ("Nutanix", {"nutanixNodeSpec": {"imageName": "i", "cpus": 1, "cpuCores": 2, "memoryMB": 4608, "diskSize": 20}}, {}),
    ("Nutanix, its image's disk", {"nutanixNodeSpec": {"cpus": 2, "memoryMB": 4608, "diskSize": None}}, {"storage": 40.0}),
    ("OpenStack", {"openstackSize": {"slug": "m1.medium", "memory": 4608, "vcpus": 2, "disk": 20, "swap": 0}}, {}),
    ("OpenStack, another disk", {"openstackSize": {"memory": 4608, "vcpus": 2, "disk": 80}, "diskSizeGB": 20}, {}),
    ("Cloud Director", {"vmDirectorNodeSpec": {"cpus": 2, "cpuCores": 1, "memoryMB": 4608, "diskSizeGB": 20}}, {}),
    ("vSphere", {"vSphereNodeSpec": {"cpus": 2, "memory": 4608, "diskSizeGB": 20, "template": "t"}}, {}),
]


@pytest.mark.parametrize(("size", "but"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
async def test_sizes_are_taken_in_the_words_of_each_provider(size: dict[str, Any], but: dict[str, Any]) -> None:
    found = api("50 100Gi 1000Gi")
    answered = await found.ask("POST", CALCULATED, {"replicas": 2, **size}, token=MEMBER)
    assert answered.code == 200, answered.body
    assert json.loads(answered.body)["calculatedQuota"] == {"cpu": 6, "memory": 13.0, "storage": 80.0} | but
    replaced = {"replicas": 1, "size": {"cpu": 1}, "replacedResources": {"replicas": 1, **size}}
    answered = await found.ask("POST", CALCULATED, replaced, token=MEMBER)
    assert json.loads(answered.body)["calculatedQuota"]["cpu"] == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"awsSize": {"vcpus": -1}}, "awsSize.vcpus: -1: a number from 0", id="fewer than none"),
        pytest.param({"hetznerSize": {"memory": 1e300}}, "hetznerSize.memory: 1e+300: a number from 0", id="too much"),
        pytest.param({"gcpSize": {}, "diskSizeGB": -3}, "diskSizeGB: -3: a number from 0", id="the disk beside it"),
        pytest.param({"kubevirtNodeSize": {"memory": "4 Gi"}}, "kubevirtNodeSize.memory: 4 Gi: a quantity", id="no quantity"),
        pytest.param({"kubevirtNodeSize": {"memory": "9" * 9_000}}, "kubevirtNodeSize.memory: 9999", id="a long quantity"),
        pytest.param({"kubevirtNodeSize": {"cpus": "-2"}}, "kubevirtNodeSize.cpus: -2: 0 to", id="a negative quantity"),
        pytest.param({"anexiaNodeSpec": {"disks": [{}] * 65}}, "disks: 65: 64 disks at most", id="too many disks"),
        pytest.param({"awsSize": {}, "doSize": {}}, "replicas: awsSize and doSize: one size alone", id="two providers"),
        pytest.param({"awsSize": {}, "size": {"cpu": 1}}, "replicas: awsSize: one size alone", id="a provider and numbers"),
        pytest.param({"equinixSize": {}}, "Object contains unknown field `equinixSize`", id="a provider that is not known"),
    ],
)
async def test_a_size_that_cannot_be_is_answered_400_with_the_field(body: Any, message: str) -> None:
    answered = await api().ask("POST", CALCULATED, {"replicas": 1, **body}, token=MEMBER)
    assert answered.code == 400
    assert answered.status["message"].startswith(message), answered.status["message"]


def with_catalogues(**flavours: dict[str, str]) -> Api:
    found = api("50 100Gi 1000Gi")
    for name, lines in flavours.items():
        spec = CatalogueSpec(provider=name)
        one = MachineCatalogue(metadata=Meta(name=name), spec=spec, data=CatalogueData(flavours=lines))
        found.objects[CATALOGUES.name, name] = one
    return found


@pytest.mark.parametrize(
    ("more", "calculated"),
    [
        pytest.param({}, {"cpu": 6, "memory": 12.0, "storage": 60.0}, id="with its own disk"),
        pytest.param({"diskSizeGB": 50}, {"cpu": 6, "memory": 12.0, "storage": 140.0}, id="with another disk"),
    ],
)
async def test_a_flavour_is_looked_up_where_the_master_has_catalogues(more: Any, calculated: Any) -> None:
    found = with_catalogues(openstack={"m1": "2 4Gi 10Gi", "m2": "1 1Gi -"}, other={"x": "9 9Gi -"}, same={"m1": "2 4Gi 10Gi"})
    answered = await found.ask("POST", CALCULATED, {"replicas": 2, "flavor": "m1", **more}, token=MEMBER)
    assert (answered.code, json.loads(answered.body)["calculatedQuota"]) == (200, calculated)


async def test_a_flavour_that_differs_by_place_is_not_guessed() -> None:
    found = with_catalogues(openstack={"m1": "2 4Gi 10Gi"}, hetzner={"m1": "4 4Gi 10Gi"})
    answered = await found.ask("POST", CALCULATED, {"replicas": 1, "flavor": "m1"}, token=MEMBER)
    assert answered.code == 400
    assert answered.status["message"].startswith("flavor: m1: its size is not the same at all providers and places: give")


@pytest.mark.parametrize(
    "error",
    [None, NotFound("there is no such kind", code=404), Forbidden("cannot list it", code=403)],
    ids=["no catalogue has it", "the kind is not served", "it may not be listed"],
)
async def test_who_gives_a_flavour_that_is_not_known_is_told_what_to_give(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error is not None:

        async def refused(self: Api, kind: Any, namespace: str = "", *, labels: str = "") -> Any:
            raise error

        monkeypatch.setattr(Api, "list", refused)
    answered = await api().ask("POST", CALCULATED, {"replicas": 1, "flavor": "t3.large"}, token=MEMBER)
    assert answered.code == 400
    assert answered.status["message"].startswith("flavor: t3.large: ")
    assert "give size.cpu in cores, size.memory and diskSizeGB in GB of 2^30 bytes" in answered.status["message"]
    replaced = {**machines("1 x 1 1 1"), "replacedResources": {"replicas": 1, "flavor": "m"}}
    answered = await api().ask("POST", CALCULATED, replaced, token=MEMBER)
    assert answered.status["message"].startswith("replacedResources.flavor: m: ")


async def test_while_nobody_knows_what_is_used_nothing_is_calculated() -> None:
    answered = await api(used="some 0 0").ask("POST", CALCULATED, machines("1 x 1 1 1"), token=MEMBER)
    assert answered.code == 503
    assert "status.globalUsage.cpu" in answered.status["message"]


async def test_while_nobody_has_counted_nothing_is_said_to_fit() -> None:
    answered = await Api().put(quota("abc", details(cpu="5"))).ask("POST", CALCULATED, machines("1 x 1 1 1"), token=MEMBER)
    assert (answered.code, answered.headers["retry-after"]) == (503, "5")
    assert answered.status["message"] == (
        "ResourceQuota project-abc: status.globalUsage: nobody has counted yet. Next: try again when the seeds have"
        " been counted"
    )


OUT = "seed fra: out of reach for 1 hour (since 2026-05-01T11:00:00Z); its last figures count"


async def test_figures_that_are_not_of_now_come_with_a_warning() -> None:
    said = f'299 ullage "ResourceQuota project-abc: its usage is not of now: {OUT}"'
    shown = await stale(OUT).ask("GET", OWN, token=MEMBER)
    calculated = await stale(OUT).ask("POST", CALCULATED, machines("1 x 1 1 1"), token=MEMBER)
    assert [(one.code, one.headers["warning"]) for one in (shown, calculated)] == [(200, said), (200, said)]


async def test_figures_of_now_and_those_that_nobody_says_anything_about_come_without_one() -> None:
    for found in (stale("counted on 2 seeds", "True"), api(), Api()):
        for answered in (
            await found.ask("GET", OWN, token=MEMBER),
            await found.ask("POST", CALCULATED, machines("1 x 1 1 1"), token=MEMBER),
        ):
            assert (answered.code, "warning" in answered.headers) == (200, False)


async def test_a_quota_that_nobody_has_counted_is_shown_with_a_warning() -> None:
    answered = await Api().put(quota("abc", details(cpu="5"))).ask("GET", OWN, token=MEMBER)
    assert (
        answered.headers["warning"] == '299 ullage "ResourceQuota project-abc: its usage is not known: nobody has counted yet"'
    )
