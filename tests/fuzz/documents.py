"""Documents that are nearly what the server expects: valid ones with something put in, taken out or replaced."""

from __future__ import annotations

import copy
from typing import Any, Final

from hypothesis import strategies as st

Json = dict[str, Any]

WORDS: Final = (
    *("name", "metadata", "spec", "data", "labels", "annotations", "finalizers", "ownerReferences", "managedFields", "kind"),
    *("apiVersion", "containers", "image", "env", "ports", "value", "resources", "limits", "cpu", "rows", "set", "numbers"),
    *("anything", "text", "words", "moment", "choice", "size", "status", "template", "selector", "matchLabels", "replicas"),
    *("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "f:a", 'k:{"a":1}', "."),
    *("generateName", "creationTimestamp", "deletionTimestamp", "resourceVersion", "uid", "generation", "fieldsV1"),
)
texts = st.one_of(
    st.sampled_from(
        ("", "a", "a-b", "A", "1", "0", "-1", "1Gi", "1e3", "1m", "true", "null", "2026-01-01T00:00:00Z", "delete")
    ),
    st.sampled_from(WORDS),
    st.text(max_size=12),
    st.from_regex(r"[0-9]{0,30}(\.[0-9]{0,10})?(e-?[0-9]{1,12}|[kMGTPEmun]i?)?", fullmatch=True),
)
numbers = st.one_of(
    st.integers(-3, 3),
    st.sampled_from((2**31, 2**32, 2**53, 2**63, 2**64, 10**30, -(2**63), -(2**63) - 1)),
    st.floats(allow_nan=False, allow_infinity=False),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(WORDS), texts), inner, max_size=4)
    ),
    max_leaves=12,
)


def config_map(name: str = "fuzz") -> Json:
    meta = {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}}


def pod(name: str = "fuzz") -> Json:
    container = {
        "name": "one",
        "image": "i",
        "env": [{"name": "A", "value": "b"}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
    }
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str = "fuzz") -> Json:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "one", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template, "replicas": 1}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def vessel(name: str = "fuzz") -> Json:
    spec = {"size": 1, "rows": [{"name": "r"}], "set": ["s"], "numbers": [1], "anything": {"a": {"b": 1}}, "words": "a b"}
    return {"apiVersion": "hostile.example.com/v1", "kind": "Vessel", "metadata": {"name": name}, "spec": spec}


def role(name: str = "fuzz") -> Json:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}


def service(name: str = "fuzz") -> Json:
    spec = {"ports": [{"port": 80}], "selector": {"a": "b"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def claim(name: str = "fuzz") -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


PLACES: Final = {
    "/api/v1/namespaces/default/configmaps": config_map,
    "/api/v1/namespaces/default/pods": pod,
    "/api/v1/namespaces/default/services": service,
    "/api/v1/namespaces/default/persistentvolumeclaims": claim,
    "/apis/apps/v1/namespaces/default/deployments": deployment,
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": role,
    "/apis/hostile.example.com/v1/namespaces/default/vessels": vessel,
}


def _paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be replaced: every member and item, at any depth."""
    found: list[tuple[Any, ...]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        found += [(*before, key), *_paths(item, (*before, key))]
    return found


@st.composite
def changed(draw: st.DrawFn, original: Json) -> Json:
    """The document with one to three places changed."""
    found: Any = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        paths = _paths(found)
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        parent: Any = found
        for step in way:
            parent = parent[step]
        what = draw(st.sampled_from(("replace", "remove", "add", "wrap")))
        if what == "replace":
            parent[last] = draw(values)
        elif what == "remove":
            del parent[last]
        elif what == "wrap":
            parent[last] = draw(st.sampled_from(({"a": parent[last]}, [parent[last]], [parent[last]] * 3)))
        elif isinstance(parent, dict):
            parent[draw(st.one_of(st.sampled_from(WORDS), texts))] = draw(values)
        else:
            parent.insert(last, draw(values))
    return dict(found)


@st.composite
def spoilt(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few of them changed, cut off, or repeated."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        if not found:
            break
        at = draw(st.integers(0, len(found) - 1))
        match draw(st.sampled_from(("flip", "cut", "insert", "repeat"))):
            case "flip":
                found[at] = draw(st.integers(0, 255))
            case "cut":
                del found[at : at + draw(st.integers(1, 20))]
            case "insert":
                found[at:at] = draw(st.binary(min_size=1, max_size=6))
            case "repeat":
                found[at:at] = found[at : at + 8] * draw(st.integers(1, 50))
    return bytes(found)
