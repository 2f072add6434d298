"""What providers answer, as flavours; and answers that are not what they should be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.projects.sizes.recorded import ANSWERS, AZURE_SIZES, AZURE_SKUS, Json
from ullage.errors import BadInput
from ullage.projects.sizes.answers import DECODERS, MOST_SKIPPED, decode
from ullage.projects.sizes.catalogue import MOST_FLAVOURS, Flavour
from ullage.quantity import Quantity


def flavour(cpu: str, memory: str, storage: str | None = None) -> Flavour:
    return Flavour(Quantity.parse(cpu), Quantity.parse(memory), Quantity.parse(storage) if storage else None)


@pytest.mark.parametrize(
    ("provider", "answer", "flavours"),
    [
        (
            "alibaba",
            ANSWERS["alibaba"],
            {"ecs.g6.large": flavour("2", "8Gi"), "ecs.t5-lc2m1.nano": flavour("1", "512Mi")},
        ),
        ("aws", ANSWERS["aws"], {"t3.small": flavour("2", "2Gi"), "m5d.24xlarge": flavour("96", "384Gi")}),
        ("azure", AZURE_SIZES, {"Standard_B2s": flavour("2", "4Gi")}),
        (
            "azure",
            AZURE_SKUS,
            {
                "Standard_D2s_v3": flavour("2", "8Gi"),
                "Standard_E4-2s_v3": flavour("2", "32Gi"),
                "Standard_A0": flavour("1", "768Mi"),
            },
        ),
        ("digitalocean", ANSWERS["digitalocean"], {"s-1vcpu-1gb": flavour("1", "1Gi", "25Gi")}),
        (
            "equinixmetal",
            ANSWERS["equinixmetal"],
            {"c3.small.x86": flavour("8", "32Gi", "960G"), "n3.xlarge.x86": flavour("64", "1Ti", "7650G")},
        ),
        ("gce", ANSWERS["gce"], {"n1-standard-2": flavour("2", "7680Mi")}),
        ("hetzner", ANSWERS["hetzner"], {"cpx11": flavour("2", "2Gi", "40G"), "22": flavour("2", "2Gi", "40G")}),
        ("kubevirt", ANSWERS["kubevirt"], {"u1.medium": flavour("1", "4Gi")}),
        ("openstack", ANSWERS["openstack"], {"m1.small": flavour("1", "2Gi", "20Gi"), "v1.small": flavour("2", "4Gi")}),
    ],
)
def test_a_documented_answer_is_read_whole(provider: str, answer: Json, flavours: dict[str, Flavour]) -> None:
    found = decode(provider, answer)
    assert found.flavours == flavours
    assert found.skipped == ()
    assert found.skips == 0


def test_every_answer_here_is_of_a_provider_and_every_provider_has_one() -> None:
    assert set(ANSWERS) == set(DECODERS)


@pytest.mark.parametrize("provider", sorted(DECODERS))
@pytest.mark.parametrize("answer", [{}, [], None, "error", {"error": {"code": 403}}, {"items": 7}], ids=repr)
def test_an_answer_of_another_shape_is_an_error_and_not_an_empty_list(provider: str, answer: object) -> None:
    """An empty list would say that there are no flavours; an error keeps what was known."""
    with pytest.raises(BadInput, match="is needed"):
        decode(provider, answer)


def hetzner(**entry: Any) -> Json:
    return {"name": "cx22", "cores": 2, "memory": 4.0, "disk": 40, **entry}


@pytest.mark.parametrize(
    ("provider", "answer", "text"),
    [
        ("hetzner", {"server_types": [7]}, "server_types[0] 7: an object is needed"),
        ("hetzner", {"server_types": [hetzner(name="")]}, 'server_types[0].name "": a name is needed'),
        (
            "hetzner",
            {"server_types": [hetzner(cores=0)]},
            "server_types[0].cores 0: a whole number from 1 to 100000 is allowed",
        ),
        (
            "hetzner",
            {"server_types": [hetzner(memory=-4)]},
            "server_types[0].memory -4: a number above 0, up to 1073741824, is allowed",
        ),
        (
            "hetzner",
            {"server_types": [hetzner(memory=math.nan)]},
            "server_types[0].memory nan: a number above 0, up to 1073741824, is allowed",
        ),
        (
            "hetzner",
            {"server_types": [hetzner(memory=10**5000)]},
            "server_types[0].memory (a number of 16610 bits): a number above 0, up to 1073741824, is allowed",
        ),
        (
            "hetzner",
            {"server_types": [{"name": "cx22", "cores": 1}]},
            "server_types[0].memory (missing): a number above 0, up to 1073741824, is allowed",
        ),
        (
            "aws",
            {"InstanceTypes": [{"InstanceType": "new", "VCpuInfo": {"DefaultVCpus": 1}}]},
            "InstanceTypes[0].MemoryInfo.SizeInMiB (missing): a whole number from 1 to 1099511627776 is allowed",
        ),
        (
            "azure",
            {"value": [{"resourceType": "virtualMachines", "name": "a", "capabilities": [{"name": "vCPUs", "value": "-2"}]}]},
            "value[0].capabilities.vCPUs -2: a number above 0, up to 100000, is allowed",
        ),
        (
            "azure",
            {"value": [{"resourceType": "virtualMachines", "name": "a", "capabilities": [{"name": "vCPUs", "value": "2"}]}]},
            "value[0].capabilities.MemoryGB (missing): a number above 0, up to 1073741824, is allowed",
        ),
        (
            "equinixmetal",
            {"plans": [{"name": "a", "specs": {"cpus": [{"count": 1}], "memory": {"total": "lots"}}}]},
            "plans[0].specs.memory.total lots: a size such as 480GB or 3.8TB is needed",
        ),
        ("equinixmetal", {"plans": [{"name": "a"}]}, "plans[0].specs.cpus of 0 cores: 1 to 100000 are allowed"),
        (
            "openstack",
            {"flavors": [{"name": "a", "vcpus": 1, "ram": 1, "disk": -1}]},
            "flavors[0].disk -1: a whole number from 0 to 1073741824 is allowed",
        ),
    ],
)
def test_an_entry_that_cannot_be_read_costs_itself_alone(provider: str, answer: Json, text: str) -> None:
    (path,) = answer
    both = {path: [*answer[path], *ANSWERS[provider][path]]}
    found = decode(provider, both)
    assert found.flavours == decode(provider, ANSWERS[provider]).flavours
    assert found.skipped == (text,)
    assert found.skips == 1


def test_of_many_that_cannot_be_read_the_first_are_listed_and_all_are_counted() -> None:
    found = decode("hetzner", {"server_types": [None] * 1000})
    assert found.flavours == {}
    assert len(found.skipped) == MOST_SKIPPED
    assert found.skips == 1000


def test_an_answer_that_is_too_long_is_an_error() -> None:
    with pytest.raises(BadInput) as error:
        decode("hetzner", {"server_types": [None] * (MOST_FLAVOURS + 1)})
    assert str(error.value) == "server_types of 5001 items: at most 5000 are allowed"


def test_a_server_without_drives_does_not_say_how_much_storage_it_has() -> None:
    found = decode("equinixmetal", {"plans": [{"name": "a", "specs": {"cpus": [{"count": 2}], "memory": {"total": "8GB"}}}]})
    assert found.flavours == {"a": flavour("2", "8Gi")}


def test_a_plan_of_two_names_goes_by_both() -> None:
    specs = {"cpus": [{"count": 1}], "memory": {"total": "8GB"}, "drives": [{"count": 1, "size": "1TB"}]}
    found = decode("equinixmetal", {"plans": [{"name": "t1.small.x86", "slug": "baremetal_0", "specs": specs}]})
    assert found.flavours == dict.fromkeys(("t1.small.x86", "baremetal_0"), flavour("1", "8Gi", "1T"))


def test_part_of_a_byte_is_a_byte() -> None:
    found = decode(
        "alibaba", {"InstanceTypes": {"InstanceType": [{"InstanceTypeId": "a", "CpuCoreCount": 1, "MemorySize": 0.1}]}}
    )
    assert found.flavours["a"].memory == Quantity.of(107374183)  # 107374182.4
