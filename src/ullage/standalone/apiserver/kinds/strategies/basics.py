"""The plain kinds of the core group and their neighbours: namespaces, configuration, accounts, nodes, events, leases."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from ullage.selectors import key_faults
from ullage.standalone.apiserver.kinds import metadata
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, STANDARD_FINALIZERS
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    at_least,
    collect,
    collect_update,
    fill,
    filler,
    items,
    one_of,
    part,
    round_amounts,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.networking import BAD_CIDR, is_cidr
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid_value, required, too_long

MAX_DATA = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_SENTENCE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
FROZEN = "field is immutable when `immutable` is set"


def _namespace_create(obj: Json) -> None:
    fill(obj, {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})


def _namespace_default(obj: Json) -> None:
    """Every namespace can be selected by its name."""
    if name := obj["metadata"].get("name"):
        labels = obj["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = name


def _namespace_update(new: Json, old: Json) -> None:
    """Only the finalize endpoint changes the finalizers of the spec."""
    spec_of(new)["finalizers"] = part(old, "spec").get("finalizers", [])


def _namespace_faults(obj: Json) -> Faults:
    for name in items(obj, "spec", "finalizers"):
        yield from (invalid_value("spec.finalizers", name, fault) for fault in key_faults(name))
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value("spec.finalizers", name, detail)


def _data_keys(field: str, data: Json) -> Faults:
    for key in data:
        yield from (invalid_value(f"{field}[{key}]", key, fault) for fault in _key_faults(key))


def _key_faults(key: str) -> list[str]:
    faults = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _KEY.fullmatch(key):
        faults.append(_KEY_SENTENCE)
    elif key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def _config_map_faults(obj: Json) -> Faults:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from _data_keys("data", data)
    for key in data:
        if key in binary:
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from _data_keys("binaryData", binary)
    if _size(data) + sum(_decoded_size(value) for value in binary.values()) > MAX_DATA:
        yield too_long("[]", MAX_DATA)


def _size(data: Json) -> int:
    return sum(len(value) if value.isascii() else len(value.encode()) for value in data.values())


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text.endswith("=") - text.endswith("==")


def _frozen(*fields: str) -> Any:
    """Once `immutable` is set nothing but metadata may change, not even `immutable` itself."""

    def check(new: Json, old: Json) -> Faults:
        if not old.get("immutable"):
            return
        if not new.get("immutable"):
            yield forbidden_field("immutable", FROZEN)
        for field in fields:
            if (new.get(field) or {}) != (old.get(field) or {}):
                yield forbidden_field(field, FROZEN)

    return check


def _secret_default(obj: Json) -> None:
    if plain := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        for key, value in plain.items():
            if isinstance(value, str):
                data[key] = base64.b64encode(value.encode()).decode()
    fill(obj, {"type": "Opaque"})


# What a secret of a type must hold.
_SECRET_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def _secret_faults(obj: Json) -> Faults:
    data, kind = obj.get("data") or {}, obj.get("type")
    yield from _data_keys("data", data)
    if sum(_decoded_size(value) for value in data.values()) > MAX_DATA:
        yield too_long("data", MAX_DATA)
    yield from (required(f"data[{key}]") for key in _SECRET_KEYS.get(kind or "", ()) if key not in data)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield from (required("data[username]"), required("data[password]"))
    if kind == "kubernetes.io/service-account-token" and not part(obj, "metadata", "annotations").get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")
    if kind in ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"):
        yield from _docker_faults(data, _SECRET_KEYS[kind][0])


def _docker_faults(data: Json, key: str) -> Faults:
    if key in data:
        try:
            json.loads(base64.b64decode(data[key]))
        except ValueError:
            yield invalid_value(f"data[{key}]", "<secret contents redacted>", "not valid JSON")


def _secret_update_faults(new: Json, old: Json) -> Faults:
    if new.get("type") != old.get("type"):
        yield invalid_value("type", new.get("type"), IMMUTABLE)
    yield from _frozen("data")(new, old)


def _node_create(obj: Json) -> None:
    """A node is not ready until its kubelet says so; what it can allocate is at first all it has."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = spec_of(obj).setdefault("taints", [])
    if taint not in taints:
        taints.append(taint)


def _node_default(obj: Json) -> None:
    empty = dict.fromkeys(_NODE_INFO, "")
    fill(obj, {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": empty}})
    status = obj["status"]
    for side in ("capacity", "allocatable"):
        round_amounts(status.get(side))
    if capacity := status.get("capacity"):
        status["allocatable"] = {**capacity, **(status.get("allocatable") or {})}


_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)


def _node_update(new: Json, old: Json) -> None:
    """Unlike on create, where nodes register with their status, updates do not carry one."""
    if "status" in old:
        new["status"] = old["status"]


def _node_faults(obj: Json) -> Faults:
    for index, taint in enumerate(items(obj, "spec", "taints")):
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        yield from one_of(f"metadata.taints[{index}].effect", taint.get("effect", ""), effects)
    cidr = part(obj, "spec").get("podCIDR")
    if cidr and not is_cidr(cidr):
        yield invalid_value("spec.podCIDRs[0]", cidr, BAD_CIDR)


def _lease_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from at_least("spec.leaseTransitions", spec.get("leaseTransitions"))


def _event_faults(obj: Json) -> Faults:
    """Events of namespaced objects live beside them, those of the others in `default`."""
    where, about = obj["metadata"].get("namespace", ""), part(obj, "involvedObject").get("namespace") or ""
    if about != where and not (not about and where in ("default", "")):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if obj.get("eventTime"):
        yield from _new_event_faults(obj, "reportingComponent", "message")


def _newer_event_faults(obj: Json) -> Faults:
    if not obj.get("eventTime") and not obj.get("deprecatedFirstTimestamp"):
        yield required("eventTime")
    yield from _new_event_faults(obj, "reportingController", "note")
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}")
    if (series := obj.get("series")) and series.get("count", 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")


def _new_event_faults(obj: Json, controller: str, note: str) -> Faults:
    name = obj.get(controller) or ""
    if not name:
        yield required(controller)
    yield from (invalid_value(controller, name, fault) for fault in key_faults(name))
    yield from (required(key) for key in ("reportingInstance", "action", "reason") if not obj.get(key))
    limits = (("reportingInstance", 128), ("action", 128), ("reason", 128), (note, 1024))
    for key, limit in limits:
        if len(obj.get(key) or "") > limit:
            field = "message" if key == note else key
            yield invalid_value(field, "", f"can have at most {limit} characters")


_EVENT_FIXED = ("reason", "action", "reportingController", "reportingInstance", "type", "eventTime", "regarding", "related")


def _newer_event_update(new: Json, old: Json) -> list[FieldError]:
    """Of an event only its series may go on."""
    changed = [key for key in _EVENT_FIXED if (new.get(key) or None) != (old.get(key) or None)]
    return [invalid_value(key, new.get(key), IMMUTABLE) for key in changed]


STRATEGIES = {
    ("", "Namespace"): Strategy(
        name_rule=metadata.label,
        unstored_status=True,
        default=_namespace_default,
        prepare_create=_namespace_create,
        prepare_update=_namespace_update,
        validate=collect(_namespace_faults),
    ),
    ("", "ConfigMap"): Strategy(
        validate=collect(_config_map_faults), validate_update=collect_update(_frozen("data", "binaryData"))
    ),
    ("", "Secret"): Strategy(
        default=_secret_default, validate=collect(_secret_faults), validate_update=collect_update(_secret_update_faults)
    ),
    ("", "ServiceAccount"): Strategy(),
    ("", "Node"): Strategy(
        default=_node_default, prepare_create=_node_create, prepare_update=_node_update, validate=collect(_node_faults)
    ),
    ("", "Event"): Strategy(
        name_rule=metadata.anything,
        default=filler({"source": {}, "reportingComponent": "", "reportingInstance": ""}),
        validate=collect(_event_faults),
    ),
    ("events.k8s.io", "Event"): Strategy(
        default=filler({"deprecatedSource": {}}), validate=collect(_newer_event_faults), validate_update=_newer_event_update
    ),
    ("coordination.k8s.io", "Lease"): Strategy(validate=collect(_lease_faults)),
}
