"""Whatever a tenant writes into a machine, and whatever a provider answers: amounts, a reason or BadInput, and soon."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.projects.sizes.recorded import ANSWERS, filled, value
from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.answers import DECODERS, decode
from ullage.projects.sizes.catalogue import Place
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.sizes.machine import READERS, size_of
from ullage.projects.sizes.units import MOST_BYTES, MOST_CPUS

# The fields that readers look at: values of any kind end up where something is expected.
FIELDS = re.findall(
    r"\w+",
    """instanceType diskSize region regionID vmSize osDiskSize dataDiskSize location imageID imageReference size machineType
    zone serverType flavor rootDiskSizeGB identityEndpoint accessKeyId accessKeyID clientID token serviceAccount password cpu
    memory storage cpus cpuCores memoryMB diskSizeGB templateVMName imageName virtualMachine template instancetype name vcpus
    cores primaryDisk secondaryDisks value secretKeyRef configMapKeyRef namespace key publisher DISKSIZE Flavor""",
)
ANSWERED = re.findall(
    r"\w+",
    """InstanceTypes InstanceType InstanceTypeId CpuCoreCount MemorySize VCpuInfo DefaultVCpus MemoryInfo SizeInMiB value name
    capabilities resourceType virtualMachines numberOfCores memoryInMB sizes slug memory vcpus disk plans specs cpus count cores
    type drives total size items guestCpus memoryMb server_types id flavors ram metadata spec cpu guest""",
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["1", "40", "4Gi", "-1Gi", "1e999", "9" * 300, "custom-4-8192", "480GB", "virtualMachines", "t3.small"])
)


def documents(names: list[str]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(names) | st.text(max_size=4)
    return st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6), max_leaves=20
    )


SPECS = st.dictionaries(st.sampled_from(FIELDS), documents(FIELDS), max_size=12)
# Where the entries of an answer are.
LISTS = {
    "alibaba": "InstanceTypes.InstanceType",
    "aws": "InstanceTypes",
    "azure": "value",
    "digitalocean": "sizes",
    "equinixmetal": "plans",
    "gce": "items",
    "hetzner": "server_types",
    "kubevirt": "items",
    "openstack": "flavors",
}
PLACES = [Place(provider) for provider in sorted(ANSWERS)]


def asked(document: object, place: Place) -> Amounts | Unknown | BadInput:
    """What is answered. Anything else that is raised fails the test."""
    try:
        return size_of(document, filled(place))
    except BadInput as error:
        return error


def check(answer: Amounts | Unknown | BadInput) -> None:
    """No answer costs much to handle, however large the question was. The largest are many disks, and sockets times cores."""
    if isinstance(answer, Amounts):
        assert set(answer) <= {"cpu", "memory", "storage"}
        assert answer["cpu"].value() <= MOST_CPUS**2
        assert max(answer["memory"], answer["storage"]).value() <= 65 * MOST_BYTES.value()
    elif isinstance(answer, Unknown):
        assert 0 < len(answer.reason) < 2000
    else:
        assert answer.where.startswith("spec.providerSpec.value")
        assert len(str(answer)) < 500


@given(st.sampled_from(sorted(READERS)), SPECS, st.sampled_from(PLACES))
def test_any_provider_spec_has_a_size_or_a_reason_or_is_refused(provider: str, spec: dict[str, Any], place: Place) -> None:
    check(asked(value(provider, **spec), place))


@given(documents([*FIELDS, "cloudProvider", "cloudProviderSpec"]))
def test_anything_at_all_has_a_size_or_a_reason_or_is_refused(document: object) -> None:
    check(asked(document, PLACES[0]))


@given(st.sampled_from(sorted(DECODERS)), documents(ANSWERED))
def test_any_answer_is_read_or_is_refused(provider: str, answer: object) -> None:
    try:
        found = decode(provider, answer)
    except BadInput:
        return
    assert all(flavour.cpu and flavour.cpu.nanos > 0 for flavour in found.flavours.values())


@given(st.sampled_from(sorted(DECODERS)), st.lists(documents(ANSWERED), max_size=3))
def test_any_entry_of_an_answer_is_read_or_is_skipped(provider: str, entries: list[object]) -> None:
    answer: Any = entries
    for name in reversed(LISTS[provider].split(".")):
        answer = {name: answer}
    found = decode(provider, answer)
    assert all(flavour.cpu and flavour.cpu.nanos > 0 for flavour in found.flavours.values())
    assert found.skips <= len(entries)


def deep(levels: int) -> object:
    made: object = "x"
    for _ in range(levels):
        made = [made]
    return made


HUGE: list[Any] = [
    "9" * 3_000_000,
    "a" * 3_000_000,
    [{"size": "1Gi"}] * 200_000,
    deep(20_000),
    10**4000,
    {f"k{number}": number for number in range(100_000)},
    {"value": "9" * 3_000_000},
]


@given(st.sampled_from(sorted(READERS)), st.sampled_from(FIELDS), st.integers(0, len(HUGE) - 1))
def test_a_spec_as_large_as_the_api_takes_it_does_not_hold_admission_up(provider: str, name: str, huge: int) -> None:
    """Long texts, long lists, deep ones, long numbers, many names: in one field."""
    began = time.perf_counter()
    check(asked(value(provider, **{name: HUGE[huge]}), PLACES[0]))
    assert time.perf_counter() - began < 1


def test_a_stored_spec_reads_as_it_was_written() -> None:
    """Machines come as JSON: what was checked on Python's values holds for what the API gives."""
    spec = value("aws", region="eu-central-1", instanceType={"value": "t3.small"}, diskSize=25)
    place = Place("aws", region="eu-central-1")
    assert size_of(json.loads(json.dumps(spec)), filled(place)) == size_of(spec, filled(place))
