"""Pods, deployments and jobs that break their own rules."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from typing import Any

from ..kinds import configmap, deployment, pod
from .case import (
    BINDINGS,
    CLAIMS,
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
        "a pod needs containers",
        "POST",
        PODS,
        {"metadata": {"name": "a"}, "spec": {}},
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec.containers: Required value',
        causes=(("spec.containers", "FieldValueRequired"),),
    ),
    Case(
        "a container needs a name and an image",
        "POST",
        PODS,
        containers({}),
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image: Required value]',
        causes=(
            ("spec.containers[0].name", "FieldValueRequired"),
            ("spec.containers[0].image", "FieldValueRequired"),
        ),
    ),
    Case(
        "two containers of one name are refused",
        "POST",
        PODS,
        containers({"name": "a", "image": "i"}, {"name": "a", "image": "i"}),
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec.containers[1].name: Duplicate value: "a"',
        causes=(("spec.containers[1].name", "FieldValueDuplicate"),),
    ),
    Case(
        "a container's name is a label",
        "POST",
        PODS,
        containers({"name": "A_b", "image": "i"}),
        expect=(422, "Invalid"),
        message="Pod \"a\" is invalid: spec.containers[0].name: Invalid value: \"A_b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        causes=(("spec.containers[0].name", "FieldValueInvalid"),),
    ),
    Case(
        "a restart policy must be known",
        "POST",
        PODS,
        {**pod("a"), "spec": {**pod("a")["spec"], "restartPolicy": "Sometimes"}},
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        causes=(("spec.restartPolicy", "FieldValueNotSupported"),),
    ),
    Case(
        "a mount needs its volume",
        "POST",
        PODS,
        containers({"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "v"',
        causes=(("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound"),),
    ),
    Case(
        "a memory request must be a quantity",
        "POST",
        PODS,
        containers({"name": "a", "image": "i", "resources": {"requests": {"memory": "lots"}}}),
        expect=(400, "BadRequest"),
        message="Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    Case(
        "a request may not be above its limit",
        "POST",
        PODS,
        containers({"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        causes=(("spec.containers[0].resources.requests", "FieldValueInvalid"),),
    ),
    Case(
        "a pod gets its defaults",
        "POST",
        PODS,
        pod("a"),
        expect=(201, ""),
        has={
            "spec.restartPolicy": "Always",
            "spec.dnsPolicy": "ClusterFirst",
            "spec.terminationGracePeriodSeconds": 30,
            "spec.schedulerName": "default-scheduler",
            "spec.securityContext": {},
            "spec.enableServiceLinks": True,
            "spec.containers[0].imagePullPolicy": "IfNotPresent",
            "spec.containers[0].terminationMessagePath": "/dev/termination-log",
            "spec.containers[0].terminationMessagePolicy": "File",
            "spec.containers[0].resources": {},
            "status.phase": "Pending",
            "status.qosClass": "BestEffort",
        },
    ),
    Case(
        "a pod's spec stays but for few fields",
        "PATCH",
        f"{PODS}/a",
        {"spec": {"hostNetwork": True}},
        headers=MERGE_PATCH,
        setup=(post(PODS, pod("a")),),
        expect=(422, "Invalid"),
        message='Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)…',
        causes=(("spec", "FieldValueForbidden"),),
    ),
    Case(
        "a pod's image may change",
        "PATCH",
        f"{PODS}/a",
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "new:2"}],
        headers={"Content-Type": "application/json-patch+json"},
        setup=(post(PODS, pod("a")),),
        has={"spec.containers[0].image": "new:2", "metadata.generation": 2},
    ),
    Case(
        "a deployment's selector must match its template",
        "POST",
        DEPLOYMENTS,
        {**deployment("a"), "spec": {**deployment("a")["spec"], "selector": {"matchLabels": {"app": "other"}}}},
        expect=(422, "Invalid"),
        message='Deployment.apps "a" is invalid: spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`',
        causes=(("spec.template.metadata.labels", "FieldValueInvalid"),),
    ),
    Case(
        "a deployment needs a selector",
        "POST",
        DEPLOYMENTS,
        {"metadata": {"name": "a"}, "spec": {"template": deployment("a")["spec"]["template"]}},
        expect=(422, "Invalid"),
        message='Deployment.apps "a" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`]',
        causes=(
            ("spec.selector", "FieldValueRequired"),
            ("spec.template.metadata.labels", "FieldValueInvalid"),
        ),
    ),
    Case(
        "a deployment's selector stays",
        "PATCH",
        f"{DEPLOYMENTS}/a",
        {"spec": {"selector": {"matchLabels": {"more": "x"}}, "template": {"metadata": {"labels": {"more": "x"}}}}},
        headers=MERGE_PATCH,
        setup=(post(DEPLOYMENTS, deployment("a")),),
        expect=(422, "Invalid"),
        message='Deployment.apps "a" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"a","more":"x"}}: field is immutable',
        causes=(("spec.selector", "FieldValueInvalid"),),
    ),
    Case(
        "replicas are not negative",
        "POST",
        DEPLOYMENTS,
        deployment("a", replicas=-1),
        expect=(422, "Invalid"),
        message='Deployment.apps "a" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        causes=(("spec.replicas", "FieldValueInvalid"),),
    ),
    Case(
        "a deployment gets its defaults",
        "POST",
        DEPLOYMENTS,
        deployment("a"),
        expect=(201, ""),
        has={
            "metadata.generation": 1,
            "spec.revisionHistoryLimit": 10,
            "spec.progressDeadlineSeconds": 600,
            "spec.strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "spec.template.spec.restartPolicy": "Always",
            "status": {},
        },
    ),
    Case(
        "a job gets its defaults",
        "POST",
        "/apis/batch/v1/namespaces/{ns}/jobs",
        {
            "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}},
        },
        expect=(201, ""),
        has={"spec.completions": 1, "spec.parallelism": 1, "spec.backoffLimit": 6, "spec.suspend": False},
    ),
    Case(
        "a job does not restart always",
        "POST",
        "/apis/batch/v1/namespaces/{ns}/jobs",
        {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}},
        expect=(422, "Invalid"),
        message='Job.batch "a" is invalid: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        causes=(("spec.template.spec.restartPolicy", "FieldValueRequired"),),
    ),
    Case(
        "a cron job's schedule must parse",
        "POST",
        "/apis/batch/v1/namespaces/{ns}/cronjobs",
        {
            "metadata": {"name": "a"},
            "spec": {
                "schedule": "never",
                "jobTemplate": {
                    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}}
                },
            },
        },
        expect=(422, "Invalid"),
        message='CronJob.batch "a" is invalid: spec.schedule: Invalid value: "never": expected exactly 5 fields, found 1: [never]',
        causes=(("spec.schedule", "FieldValueInvalid"),),
    ),
)
