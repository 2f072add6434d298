"""Built-in kinds that break their own rules: metadata, config maps, secrets, services, roles, leases, quotas, field types."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from typing import Any

from ..kinds import configmap, deployment
from .case import (
    BINDINGS,
    CONFIGMAPS,
    DEPLOYMENTS,
    LEASES,
    MERGE_PATCH,
    NAMESPACE,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    Case,
    Json,
    Step,
    post,
)


def claim(name: str = "a", **spec: Any) -> Json:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole}


def volume(**spec: Any) -> Json:
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-{ns}"}, "spec": whole}


def containers(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": list(items)}}


VOLUMES = "/api/v1/persistentvolumes"
VOLUME = "/api/v1/persistentvolumes/pv-{ns}"
GONE = (Step("DELETE", VOLUME),)

CASES = (
    Case(
        "a label's value must be short and plain",
        "POST",
        CONFIGMAPS,
        configmap("a", labels={"k": "not plain!"}),
        expect=(422, "Invalid"),
        message="ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"not plain!\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        causes=(("metadata.labels", "FieldValueInvalid"),),
    ),
    Case(
        "a label's key must be a qualified name",
        "POST",
        CONFIGMAPS,
        configmap("a", labels={"bad key": "v"}),
        expect=(422, "Invalid"),
        message="ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        causes=(("metadata.labels", "FieldValueInvalid"),),
    ),
    Case(
        "an annotation's key must be a qualified name",
        "POST",
        CONFIGMAPS,
        configmap("a", annotations={"bad key": "v"}),
        expect=(422, "Invalid"),
        message="ConfigMap \"a\" is invalid: metadata.annotations: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        causes=(("metadata.annotations", "FieldValueInvalid"),),
    ),
    Case(
        "annotations have a limit in size",
        "POST",
        CONFIGMAPS,
        configmap("a", annotations={"k": "x" * 262145}),
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes',
        causes=(("metadata.annotations", "FieldValueTooLong"),),
    ),
    Case(
        "a finalizer must be a qualified name",
        "POST",
        CONFIGMAPS,
        configmap("a", finalizers=["bad name!"]),
        expect=(422, "Invalid"),
        message="ConfigMap \"a\" is invalid: [metadata.finalizers: Invalid value: \"bad name!\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), metadata.finalizers[0]: Invalid value: \"bad name!\": name is neither a standard finalizer name nor is it fully qualified]",
        causes=(
            ("metadata.finalizers", "FieldValueInvalid"),
            ("metadata.finalizers[0]", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a finalizer without a domain",
        "POST",
        CONFIGMAPS,
        configmap("a", finalizers=["plain"]),
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified',
        causes=(("metadata.finalizers[0]", "FieldValueInvalid"),),
    ),
    Case(
        "an owner needs a uid",
        "POST",
        CONFIGMAPS,
        configmap("a", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}]),
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        causes=(("metadata.ownerReferences.uid", "FieldValueInvalid"),),
    ),
    Case(
        "only one owner controls",
        "POST",
        CONFIGMAPS,
        configmap(
            "a",
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True},
                {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "2", "controller": True},
            ],
        ),
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"y","uid":"2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/y',
        causes=(("metadata.ownerReferences", "FieldValueInvalid"),),
    ),
    Case(
        "a config map's keys are plain",
        "POST",
        CONFIGMAPS,
        configmap("a", {"bad key": "v"}),
        expect=(422, "Invalid"),
        message="ConfigMap \"a\" is invalid: data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        causes=(("data[bad key]", "FieldValueInvalid"),),
    ),
    Case(
        "a key is either text or binary",
        "POST",
        CONFIGMAPS,
        {**configmap("a", {"k": "v"}), "binaryData": {"k": "dg=="}},
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: data[k]: Invalid value: "k": duplicate of key present in binaryData',
        causes=(("data[k]", "FieldValueInvalid"),),
    ),
    Case(
        "an immutable config map stays",
        "PATCH",
        f"{CONFIGMAPS}/a",
        {"data": {"k": "w"}},
        headers=MERGE_PATCH,
        setup=(post(CONFIGMAPS, {**configmap("a", {"k": "v"}), "immutable": True}),),
        expect=(422, "Invalid"),
        message='ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set',
        causes=(("data", "FieldValueForbidden"),),
    ),
    Case(
        "a secret's type stays",
        "PATCH",
        f"{SECRETS}/a",
        {"type": "example.com/other"},
        headers=MERGE_PATCH,
        setup=(post(SECRETS, {"metadata": {"name": "a"}}),),
        expect=(422, "Invalid"),
        message='Secret "a" is invalid: type: Invalid value: "example.com/other": field is immutable',
        causes=(("type", "FieldValueInvalid"),),
    ),
    Case(
        "a basic-auth secret needs a user or a password",
        "POST",
        SECRETS,
        {"metadata": {"name": "a"}, "type": "kubernetes.io/basic-auth"},
        expect=(422, "Invalid"),
        message='Secret "a" is invalid: [data[username]: Required value, data[password]: Required value]',
        causes=(
            ("data[username]", "FieldValueRequired"),
            ("data[password]", "FieldValueRequired"),
        ),
    ),
    Case(
        "a TLS secret needs its keys",
        "POST",
        SECRETS,
        {"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}},
        expect=(422, "Invalid"),
        message='Secret "a" is invalid: data[tls.key]: Required value',
        causes=(("data[tls.key]", "FieldValueRequired"),),
    ),
    Case(
        "a service needs ports",
        "POST",
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {}},
        expect=(422, "Invalid"),
        message='Service "a" is invalid: spec.ports: Required value',
        causes=(("spec.ports", "FieldValueRequired"),),
    ),
    Case(
        "a service's port is in range",
        "POST",
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 70000}]}},
        expect=(422, "Invalid"),
        message='Service "a" is invalid: [spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive, spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive]',
        causes=(
            ("spec.ports[0].port", "FieldValueInvalid"),
            ("spec.ports[0].targetPort", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a service's type must be known",
        "POST",
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {"type": "Magic", "ports": [{"port": 1}]}},
        expect=(422, "Invalid"),
        message='Service "a" is invalid: spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        causes=(("spec.type", "FieldValueNotSupported"),),
    ),
    Case(
        "a headless service gets its defaults",
        "POST",
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        expect=(201, ""),
        has={
            "spec.type": "ClusterIP",
            "spec.sessionAffinity": "None",
            "spec.ports[0].protocol": "TCP",
            "spec.ports[0].targetPort": 80,
            "spec.clusterIPs": ["None"],
            "spec.internalTrafficPolicy": "Cluster",
        },
    ),
    Case(
        "a rule of a role needs verbs",
        "POST",
        ROLES,
        {"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        expect=(422, "Invalid"),
        message='Role.rbac.authorization.k8s.io "a" is invalid: rules[0].verbs: Required value: verbs must contain at least one value',
        causes=(("rules[0].verbs", "FieldValueRequired"),),
    ),
    Case(
        "a binding needs a role",
        "POST",
        BINDINGS,
        {"metadata": {"name": "a"}, "subjects": []},
        expect=(422, "Invalid"),
        message='RoleBinding.rbac.authorization.k8s.io "a" is invalid: [roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole", roleRef.name: Required value]',
        causes=(
            ("roleRef.kind", "FieldValueNotSupported"),
            ("roleRef.name", "FieldValueRequired"),
        ),
    ),
    Case(
        "a binding's role stays",
        "PATCH",
        f"{BINDINGS}/a",
        {"roleRef": {"name": "other"}},
        headers=MERGE_PATCH,
        setup=(
            post(
                BINDINGS,
                {"metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}},
            ),
        ),
        expect=(422, "Invalid"),
        message='RoleBinding.rbac.authorization.k8s.io "a" is invalid: roleRef: Invalid value: …: cannot change roleRef',
        causes=(("roleRef", "FieldValueInvalid"),),
    ),
    Case(
        "a lease's duration is positive",
        "POST",
        LEASES,
        {"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}},
        expect=(422, "Invalid"),
        message='Lease.coordination.k8s.io "a" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
        causes=(("spec.leaseDurationSeconds", "FieldValueInvalid"),),
    ),
    Case(
        "a lease's time has microseconds",
        "POST",
        LEASES,
        {"metadata": {"name": "a"}, "spec": {"renewTime": "yesterday"}},
        expect=(400, "BadRequest"),
        message='Lease in version "v1" cannot be handled as a Lease: parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006"',
    ),
    Case(
        "a storage class needs a provisioner",
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "sc-{ns}"}},
        expect=(422, "Invalid"),
        message='StorageClass.storage.k8s.io "sc-{ns}" is invalid: provisioner: Required value',
        causes=(("provisioner", "FieldValueRequired"),),
    ),
    Case(
        "a quota's amount must be a quantity",
        "POST",
        f"{NAMESPACE}/resourcequotas",
        {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "many"}}},
        expect=(400, "BadRequest"),
        message="ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    Case(
        "a quota's amount is not negative",
        "POST",
        f"{NAMESPACE}/resourcequotas",
        {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "-1"}}},
        expect=(422, "Invalid"),
        message='ResourceQuota "a" is invalid: spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0',
        causes=(("spec.hard[pods]", "FieldValueInvalid"),),
    ),
    Case(
        "an integer field takes no text",
        "POST",
        DEPLOYMENTS,
        {**deployment("a"), "spec": {**deployment("a")["spec"], "replicas": "two"}},
        expect=(400, "BadRequest"),
        message='Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal …',
    ),
    Case(
        "an array field takes no object",
        "POST",
        PODS,
        {"metadata": {"name": "a"}, "spec": {"containers": {}}},
        expect=(400, "BadRequest"),
        message='Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal …',
    ),
    Case(
        "a boolean field takes no text",
        "POST",
        CONFIGMAPS,
        {"metadata": {"name": "a"}, "immutable": "yes"},
        expect=(400, "BadRequest"),
        message='ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal …',
    ),
)
