"""PersistentVolumes, their classes, and what drivers say about themselves."""

from __future__ import annotations

from ullage.quantity import ZERO, Quantity
from ullage.selectors import key_faults
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, subdomain
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    changes,
    collect,
    collect_update,
    fill,
    filler,
    go_names,
    immutable,
    in_order,
    items,
    named,
    one_of,
    optional_name,
    part,
    round_amounts,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.storage.claims import VOLUME_MODES, access_mode_faults, default_claim_spec
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, forbidden_field, invalid_value, not_supported, required, too_long

MAX_PARAMETERS = 512
MAX_PARAMETER_SIZE = 256 * 1024
SOURCES = (
    *("gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "flexVolume"),
    *("cinder", "cephfs", "fc", "flocker", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
    *("portworxVolume", "scaleIO", "local", "storageos", "csi"),
)
HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")

# What volumes of both sorts (in pods and of their own) default to, by source.
SOURCE_DEFAULTS: dict[str, Json] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# What the server requires of the sources that people write by hand.
SOURCE_REQUIRED: dict[str, tuple[str, ...]] = {
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "local": ("path",),
    "iscsi": ("targetPortal", "iqn"),
}


def default_source(volume: Json) -> None:
    for source, defaults in SOURCE_DEFAULTS.items():
        if isinstance(found := volume.get(source), dict):
            fill(found, defaults)
    if isinstance(host := volume.get("hostPath"), dict) and host.get("type") is None:
        host["type"] = ""


def source_faults(volume: Json, path: str, sources: tuple[str, ...] = SOURCES) -> Faults:
    """Exactly one source, with what it needs."""
    found = [source for source in sources if volume.get(source) is not None]
    if not found:
        yield required(path, "must specify a volume type")
    for extra in found[1:]:
        yield forbidden_field(f"{path}.{extra}", "may not specify more than 1 volume type")
    for source in found[:1]:
        yield from _one_source_faults(volume[source], source, f"{path}.{source}")


def _one_source_faults(body: Json, source: str, path: str) -> Faults:
    yield from (required(f"{path}.{key}") for key in SOURCE_REQUIRED.get(source, ()) if not body.get(key))
    where = body.get("path") or ""
    if source in ("hostPath", "local") and ".." in where.split("/"):
        yield invalid_value(f"{path}.path", where, "must not contain '..'")
    if source == "hostPath":
        yield from one_of(f"{path}.type", body.get("type"), HOST_PATH_TYPES)
    if source == "nfs" and where and not where.startswith("/"):
        yield invalid_value(f"{path}.path", where, "must be an absolute path")
    if source == "csi":
        yield from optional_name(f"{path}.driver", body.get("driver"))


def _volume_default(obj: Json) -> None:
    spec = spec_of(obj)
    default_source(spec)
    fill(spec, {"persistentVolumeReclaimPolicy": "Retain"})
    default_claim_spec(spec)
    round_amounts(spec.get("capacity"))


def _volume_create(obj: Json) -> None:
    """The time of the first phase is the time of creation."""
    fill(obj, {"status": {"phase": "Pending"}})
    if created := obj["metadata"].get("creationTimestamp"):
        fill(obj["status"], {"lastPhaseTransitionTime": created})


def _volume_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    yield from access_mode_faults(spec, "spec")
    yield from _capacity_faults(spec)
    yield from source_faults(spec, "spec")
    if isinstance(csi := spec.get("csi"), dict) and not csi.get("volumeHandle"):  # in a pod there is none yet
        yield required("spec.csi.volumeHandle")
    if spec.get("local") and not spec.get("nodeAffinity"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if spec.get("nodeAffinity") is not None and not part(spec, "nodeAffinity").get("required"):
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from one_of("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
    if policy == "Recycle" and part(spec, "hostPath").get("path") == "/":
        yield forbidden_field("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    yield from optional_name("spec.storageClassName", spec.get("storageClassName"))
    yield from one_of("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES)


def _capacity_faults(spec: Json) -> Faults:
    capacity = spec.get("capacity")
    if not capacity:
        yield required("spec.capacity")
    if not capacity or list(capacity) != ["storage"]:
        yield not_supported("spec.capacity", in_order(capacity), ("storage",))
    for name, text in (capacity or {}).items():
        amount = Quantity.parse(text)
        if amount < ZERO:
            yield invalid_value(f"spec.capacity[{name}]", amount.value(), "must be a valid resource quantity")
        if amount <= ZERO:
            yield invalid_value(f"spec.capacity[{name}]", text, "must be greater than zero")


def _volume_update_faults(new: Json, old: Json) -> Faults:
    before, after = (_source(part(obj, "spec")) for obj in (old, new))
    if before != after:
        place = "spec.persistentvolumesource"
        yield forbidden_field(place, f"{place} is immutable after creation\n{changes(before, after)}")
    was, now = (part(obj, "spec").get("volumeMode") for obj in (old, new))
    if was != now:
        yield invalid_value("volumeMode", now, IMMUTABLE)


def _source(spec: Json) -> Json:
    """The source, but for the secret that a resize may add later."""
    found = {source: spec[source] for source in SOURCES if spec.get(source) is not None}
    if "csi" in found:
        found["csi"] = {key: value for key, value in found["csi"].items() if key != "controllerExpandSecretRef"}
    return found


def _class_faults(obj: Json) -> Faults:
    yield from _driver_name_faults("provisioner", obj.get("provisioner") or "")
    yield from _parameter_faults(obj.get("parameters") or {})
    yield from one_of("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
    yield from one_of("volumeBindingMode", obj.get("volumeBindingMode"), ("Immediate", "WaitForFirstConsumer"))
    for index, topology in enumerate(items(obj, "allowedTopologies")):
        for at, term in enumerate(items(topology, "matchLabelExpressions")):
            if not term.get("values"):
                yield required(f"allowedTopologies[{index}].matchLabelExpressions[{at}].values")


def _driver_name_faults(path: str, name: str) -> Faults:
    if not name:
        yield required(path)
    else:
        yield from (invalid_value(path, name.lower(), fault) for fault in key_faults(name.lower()))


def _parameter_faults(parameters: Json) -> Faults:
    if len(parameters) > MAX_PARAMETERS:
        yield too_long("parameters", MAX_PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > MAX_PARAMETER_SIZE:
        yield too_long("parameters", MAX_PARAMETER_SIZE)
    if "" in parameters:
        yield invalid_value("parameters", "", "field can not be empty.")


def _attributes_class_faults(obj: Json) -> Faults:
    yield from _driver_name_faults("driverName", obj.get("driverName") or "")
    if not obj.get("parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def _attributes_class_update(new: Json, old: Json) -> Faults:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield forbidden_field(field, f"updates to {field} are forbidden.")


def _driver_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    yield from one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), policies)
    for index, token in enumerate(items(spec, "tokenRequests")):
        if (seconds := token.get("expirationSeconds")) is not None and seconds < 600:
            detail = "may not specify a duration less than 10 minutes"
            yield invalid_value(f"spec.tokenRequests[{index}].expirationSeconds", seconds, detail)
    for mode in items(spec, "volumeLifecycleModes"):
        yield from one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))


def _driver_update_faults(new: Json, old: Json) -> Faults:
    before, after = part(old, "spec"), part(new, "spec")
    if after.get("attachRequired") != before.get("attachRequired"):
        yield invalid_value("spec.attachedRequired", after.get("attachRequired"), IMMUTABLE)  # the server's own spelling
    yield from immutable("spec.volumeLifecycleModes")(new, old)


def _csi_node_update_faults(new: Json, old: Json) -> Faults:
    """A driver on a node may come and go, but not change."""
    known = {driver.get("name"): driver for driver in items(old, "spec", "drivers")}
    for driver in items(new, "spec", "drivers"):
        if driver != known.get(driver.get("name"), driver):
            shown = {key: driver.get(key) for key in ("name", "nodeID", "topologyKeys", "allocatable")}
            yield invalid_value("spec.drivers", go_names(shown), IMMUTABLE)


def _csi_node_faults(obj: Json) -> Faults:
    seen: set[str] = set()
    for index, driver in enumerate(items(obj, "spec", "drivers")):
        path, name = f"spec.drivers[{index}]", driver.get("name") or ""
        yield from named(f"{path}.name", name, subdomain)
        if not driver.get("nodeID"):
            yield required(f"{path}.nodeID")
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def _attachment_faults(obj: Json) -> Faults:
    spec, source = part(obj, "spec"), part(obj, "spec", "source")
    yield from named("spec.attacher", spec.get("attacher"), subdomain)
    node = spec.get("nodeName") or ""
    yield from (invalid_value("spec.nodeName", node, fault) for fault in subdomain(node))
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if (volume is None) == (inline is None):
        yield required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None:
        if not volume:
            yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
        yield from (invalid_value("spec.source.persistentVolumeName", volume, fault) for fault in subdomain(volume))


def _attachment_update_faults(new: Json, old: Json) -> Faults:
    after = part(new, "spec")
    if after != part(old, "spec"):
        source = {key: part(after, "source").get(key) for key in ("persistentVolumeName", "inlineVolumeSpec")}
        shown = {"attacher": after.get("attacher"), "source": source, "nodeName": after.get("nodeName")}
        yield invalid_value("spec", go_names(shown), IMMUTABLE)


def _capacity_object_faults(obj: Json) -> Faults:
    name = obj.get("storageClassName") or ""
    yield from (invalid_value("storageClassName", name, fault) for fault in subdomain(name))
    for field in ("capacity", "maximumVolumeSize"):
        if (text := obj.get(field)) is not None and Quantity.parse(text) < ZERO:
            yield invalid_value(field, text, "must be greater than or equal to 0")


DRIVER_DEFAULTS: Json = {
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
    }
}
STORAGE = "storage.k8s.io"
STRATEGIES = {
    ("", "PersistentVolume"): Strategy(
        unstored_status=True,
        default=_volume_default,
        prepare_create=_volume_create,
        validate=collect(_volume_faults),
        validate_update=collect_update(_volume_update_faults),
    ),
    (STORAGE, "StorageClass"): Strategy(
        default=filler({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        validate=collect(_class_faults),
        validate_update=collect_update(immutable("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")),
    ),
    (STORAGE, "VolumeAttributesClass"): Strategy(
        validate=collect(_attributes_class_faults), validate_update=collect_update(_attributes_class_update)
    ),
    (STORAGE, "CSIDriver"): Strategy(
        late_generation=True,
        default=filler(DRIVER_DEFAULTS),
        validate=collect(_driver_faults),
        validate_update=collect_update(_driver_update_faults),
    ),
    (STORAGE, "CSINode"): Strategy(validate=collect(_csi_node_faults), validate_update=collect_update(_csi_node_update_faults)),
    (STORAGE, "CSIStorageCapacity"): Strategy(
        validate=collect(_capacity_object_faults), validate_update=collect_update(immutable("nodeTopology", "storageClassName"))
    ),
    (STORAGE, "VolumeAttachment"): Strategy(
        unstored_status=True,
        prepare_create=lambda obj: fill(obj, {"status": {"attached": False}}),
        validate=collect(_attachment_faults),
        validate_update=collect_update(_attachment_update_faults),
    ),
}
