"""How `ullage api` runs on a cluster: a Deployment, the Service in front of it, and how many of it must stay. Pure.

`ullage install` brings its account and rights, and no processes: which image those come from is for administrators to say. This
is what they start from.
"""

from __future__ import annotations

from typing import Final

from ullage import __version__
from ullage.app.installer.manifests import LABELS, NAMESPACE
from ullage.app.installer.roles import API
from ullage.kube.objects import Json

IMAGE: Final = f"example.com/ullage:{__version__}"  # to be replaced
PORT: Final = 8443
USER: Final = 65532  # anybody but root
GRACE_SECONDS: Final = 20  # the drain, requests under way, and some
_NAME: Final = {"app.kubernetes.io/name": "ullage-api"}


def api_deployment() -> list[Json]:
    """In the order in which they are applied."""
    return [
        {
            **_head("v1", "Service"),
            "spec": {"selector": _NAME, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
        },
        {**_head("policy/v1", "PodDisruptionBudget"), "spec": {"minAvailable": 1, "selector": {"matchLabels": _NAME}}},
        {
            **_head("apps/v1", "Deployment"),
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": _NAME},
                "strategy": {"rollingUpdate": {"maxUnavailable": 0}},
                "template": {"metadata": {"labels": {**LABELS, **_NAME}}, "spec": _pod()},
            },
        },
    ]


def _head(version: str, kind: str) -> Json:
    metadata = {"name": API, "namespace": NAMESPACE, "labels": {**LABELS, **_NAME}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _pod() -> Json:
    command = ["ullage", "api", "--bind", "0.0.0.0", "--port", str(PORT), "--service", f"{NAMESPACE}/{API}"]
    return {
        "serviceAccountName": API,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "api",
                "image": IMAGE,
                "command": [*command, "--log-format", "json"],
                "ports": [{"name": "https", "containerPort": PORT}],
                "readinessProbe": _probe("/readyz", period=5),
                "livenessProbe": _probe("/healthz", period=20),
                "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                # A key is read by the TLS library from a file, for a moment: that one never reaches a disk.
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}],
    }


def _probe(path: str, *, period: int) -> Json:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "periodSeconds": period, "timeoutSeconds": 5}
