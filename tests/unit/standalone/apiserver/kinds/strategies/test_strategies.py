"""The built-in kinds' defaults and rules, held against what kube-apiserver 1.36 answered.

`golden/defaults.json`   objects as they were sent, and as they came back
`golden/creates.json`    one of these with fields set or removed, and the causes of the refusal (none: it was accepted)
`golden/updates.json`    the same, as an update of the object that came back
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.standalone.apiserver.kinds.metadata import carry_metadata, validate_metadata, validate_metadata_update
from ullage.standalone.apiserver.kinds.strategies import STRATEGIES, Strategy, resize_refusal, strategy
from ullage.standalone.apiserver.kinds.strategies.services import lacking_ports, port_candidates
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.builtin import compile_builtin
from ullage.standalone.apiserver.schema.definitions import load
from ullage.standalone.apiserver.status import FieldError
from ullage.standalone.apiserver.status import show as shown

NAMESPACE = "ns"  # of the objects in the golden files
GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> list[Json]:
    return msgspec.json.decode((GOLDEN / f"{name}.json").read_bytes(), type=list[dict[str, Any]])


DEFAULTS = golden("defaults")
BASES = {row["id"]: row for row in DEFAULTS}


def of(obj: Json) -> tuple[str, str, str]:
    group, _, version = obj["apiVersion"].rpartition("/")
    return group, version, obj["kind"]


def strategy_of(obj: Json) -> Strategy:
    group, _, kind = of(obj)
    return strategy(group, kind)


def decoded(obj: Json) -> Json:
    """An object as it stands after decoding: known fields only, quantities canonical."""
    obj = copy.deepcopy(obj)
    name = load().name_of(*of(obj))
    assert name is not None
    compile_builtin(load(), name).prune(obj)
    return obj


def created(sent: Json) -> Json:
    """An object as a create would store it."""
    obj = decoded(sent)
    rules = strategy_of(obj)
    rules.default(obj)
    obj["metadata"].update(uid="UID", namespace=NAMESPACE)
    if rules.generation:
        obj["metadata"]["generation"] = 1
    if rules.unstored_status:
        obj.pop("status", None)
    rules.prepare_create(obj)
    return obj


def create_faults(obj: Json) -> list[FieldError]:
    rules = strategy_of(obj)
    return validate_metadata(obj["metadata"], namespaced=True, name_rule=rules.name_rule) + rules.validate(obj)


def update_faults(sent: Json, old: Json) -> tuple[Json, list[FieldError]]:
    new, rules = decoded(sent), strategy_of(sent)
    carry_metadata(new["metadata"], old["metadata"])
    rules.default(new)
    if rules.unstored_status and "status" in old:
        new["status"] = old["status"]
    rules.prepare_update(new, old)
    faults = validate_metadata_update(new["metadata"], old["metadata"])
    return new, faults + rules.validate(new) + rules.validate_update(new, old)


def changed(obj: Json, changes: list[Any]) -> Json:
    obj = copy.deepcopy(obj)
    for path, *value in changes:
        place: Any = obj
        for key in path[:-1]:
            place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
        if value:
            place[path[-1]] = value[0]
        else:
            place.pop(path[-1], None)
    return obj


def sentence(row: Json) -> str:
    changes = (f"{'.'.join(map(str, path))} {shown(*value) if value else 'removed'}" for path, *value in row["set"])
    return f"{row['base']} with {' and '.join(changes)}"[:120]


def causes(faults: list[FieldError]) -> list[tuple[str, str, str]]:
    return sorted({(fault.kind, fault.field, told(fault.body)) for fault in faults})


def expected(row: Json) -> list[tuple[str, str, str]]:
    return sorted({(kind, field, told(message)) for kind, field, message in row["causes"]})


def told(message: str) -> str:
    """A message without the difference of two objects in Go's notation; only that of claims is ours, too."""
    return message if CLAIM in message else message.partition("\n@@")[0]


CLAIM = "except resources.requests"


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in DEFAULTS])
def test_a_created_object_is_what_the_server_makes_of_it(row: Json) -> None:
    obj = created(row["input"])
    del obj["metadata"]["uid"], obj["metadata"]["namespace"]
    assert obj == row["output"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in DEFAULTS])
def test_a_created_object_is_valid_and_defaults_settle(row: Json) -> None:
    obj = created(row["input"])
    assert create_faults(obj) == []
    again = copy.deepcopy(obj)
    strategy_of(obj).default(again)
    assert again == obj


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in DEFAULTS])
def test_an_update_that_changes_nothing_is_valid_and_changes_nothing(row: Json) -> None:
    old = created(row["input"])
    new, faults = update_faults(old, old)
    assert faults == []
    assert new == old


@pytest.mark.parametrize("row", [pytest.param(row, id=sentence(row)) for row in golden("creates")])
def test_creates_are_refused_as_the_server_refuses_them(row: Json) -> None:
    obj = created(changed(BASES[row["base"]]["input"], row["set"]))
    assert causes(create_faults(obj)) == expected(row)


@pytest.mark.parametrize("row", [pytest.param(row, id=sentence(row)) for row in golden("updates")])
def test_updates_are_refused_as_the_server_refuses_them(row: Json) -> None:
    old = created(BASES[row["base"]]["input"])
    _, faults = update_faults(changed(old, row["set"]), old)
    assert causes(faults) == expected(row)


def bound_claim(requested: str = "1Gi", capacity: str = "1Gi") -> Json:
    obj = created(BASES["a claim"]["input"])
    obj["spec"]["resources"]["requests"]["storage"] = requested
    obj["spec"].update(volumeName="v", storageClassName="fast")
    obj["status"] = {"phase": "Bound", "capacity": {"storage": capacity}}
    return obj


@pytest.mark.parametrize(
    ("old", "wanted", "refused"),
    [
        pytest.param(bound_claim(), "2Gi", False, id="a bound claim may grow"),
        pytest.param(bound_claim(), "512Mi", True, id="a bound claim may not shrink below what it has"),
        pytest.param(bound_claim("4Gi"), "2Gi", False, id="a growth that has not happened may be taken back"),
        pytest.param(bound_claim("4Gi"), "1023Mi", True, id="but not below the volume"),
    ],
)
def test_requests_of_a_bound_claim(old: Json, wanted: str, refused: bool) -> None:
    new = changed(old, [[["spec", "resources", "requests", "storage"], wanted]])
    _, faults = update_faults(new, old)
    text = "Forbidden: field can not be less than status.capacity"
    assert causes(faults) == ([("FieldValueForbidden", "spec.resources.requests.storage", text)] if refused else [])


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        pytest.param("volumeAttributesClassName", "gold", False, id="a bound claim may change its attributes"),
        pytest.param("volumeName", "w", True, id="a bound claim stays with its volume"),
        pytest.param("storageClassName", "slow", True, id="a class that was chosen stays"),
        pytest.param("accessModes", ["ReadOnlyMany"], True, id="access modes stay"),
    ],
)
def test_other_fields_of_a_bound_claim(field: str, value: object, refused: bool) -> None:
    old = bound_claim()
    _, faults = update_faults(changed(old, [[["spec", field], value]]), old)
    assert bool(faults) is refused


@pytest.mark.parametrize(
    ("wanted", "known", "refused"),
    [
        pytest.param("2Gi", {"allowVolumeExpansion": True}, False, id="a class that allows it"),
        pytest.param("2Gi", {}, True, id="a class that does not say so"),
        pytest.param("2Gi", None, True, id="a class that is not there"),
        pytest.param("1Gi", None, False, id="no growth, no question"),
    ],
)
def test_only_claims_of_growing_classes_grow(wanted: str, known: Json | None, refused: bool) -> None:
    old = bound_claim()
    new = changed(old, [[["spec", "resources", "requests", "storage"], wanted]])
    assert (resize_refusal(new, old, storage_class={"fast": known}.get) is not None) is refused


def test_the_class_that_an_annotation_names_decides_whether_a_claim_grows() -> None:
    old = bound_claim()
    old["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "old"}
    new = changed(old, [[["spec", "resources", "requests", "storage"], "2Gi"]])
    assert resize_refusal(new, old, storage_class={"old": {"allowVolumeExpansion": True}}.get) is None


def test_data_of_more_than_a_mebibyte_is_refused() -> None:
    full = {"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}, "data": {"a": "x" * 2**20}}
    assert strategy("", "ConfigMap").validate(full) == []
    full["data"] = {"a": "é" * (2**19 + 1)}
    assert [fault.field for fault in strategy("", "ConfigMap").validate(full)] == ["[]"]
    secret = {"type": "Opaque", "metadata": {}, "data": {"a": "AAAA" * (2**20 // 3 + 1)}}
    assert [str(fault) for fault in strategy("", "Secret").validate(secret)] == [
        "data: Too long: may not be more than 1048576 bytes"
    ]


def test_an_immutable_config_map_changes_only_its_metadata() -> None:
    old: Json = {"metadata": {}, "immutable": True, "data": {"a": "b"}}
    rules = strategy("", "ConfigMap")
    assert rules.validate_update({**old, "metadata": {"labels": {"x": "y"}}}, old) == []
    told_off = [str(fault) for fault in rules.validate_update({"metadata": {}, "data": {"a": "c"}}, old)]
    assert told_off == [f"{field}: Forbidden: field is immutable when `immutable` is set" for field in ("immutable", "data")]


def test_services_that_open_ports_on_nodes_say_which_are_missing() -> None:
    def service(kind: str, **more: Any) -> Json:
        return {"spec": {"type": kind, "ports": [{"port": 80}, {"port": 81, "nodePort": 30001}], **more}}

    assert lacking_ports(service("NodePort")) == [{"port": 80}]
    assert lacking_ports(service("LoadBalancer")) == [{"port": 80}]
    assert lacking_ports(service("LoadBalancer", allocateLoadBalancerNodePorts=False)) == []
    assert lacking_ports(service("ClusterIP")) == []
    assert sorted(port_candidates("ns/a")) == list(range(30000, 32768))
    assert next(port_candidates("ns/a")) == next(port_candidates("ns/a"))


def test_a_service_keeps_what_it_was_given() -> None:
    old = created(BASES["a node port service"]["input"])
    bare = changed(old, [[["spec", "clusterIP"]], [["spec", "clusterIPs"]], [["spec", "ports", 0, "nodePort"]]])
    new, faults = update_faults(bare, old)
    assert faults == []
    assert new == old


def test_a_new_template_of_a_daemon_set_is_counted() -> None:
    old = created(BASES["a daemon set"]["input"])
    new, _ = update_faults(changed(old, [[["spec", "template", "spec", "containers", 0, "image"], "other"]]), old)
    assert new["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}


def test_amounts_in_resource_lists_are_rounded_up_to_thousandths() -> None:
    quota = changed(BASES["a quota"]["input"], [[["spec", "hard"], {"cpu": "1500u", "memory": "1.1n"}]])
    assert created(quota)["spec"]["hard"] == {"cpu": "2m", "memory": "1m"}


def test_the_defaults_of_two_objects_are_not_the_same_objects() -> None:
    one, two = (created(BASES["a deployment"]["input"]) for _ in range(2))
    one["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = 5
    one["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 1
    assert two == created(BASES["a deployment"]["input"])


def test_a_kind_without_rules_of_its_own_is_generic() -> None:
    rules = strategy("example.com", "Widget")
    obj: Json = {"metadata": {"name": "x"}, "spec": {"any": "thing"}}
    rules.default(obj)
    assert obj == {"metadata": {"name": "x"}, "spec": {"any": "thing"}}
    assert rules.validate(obj) == []
    assert rules.validate_update(obj, {}) == []
    assert not rules.generation
    assert ("example.com", "Widget") not in STRATEGIES
