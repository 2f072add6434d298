"""`/healthz`, `/livez` and `/readyz`: whoever gets an answer from these knows what they wanted to know.

The checks carry the names that kube-apiserver gives its own, as far as there is something here that they could mean: probes and
scripts ask for them one by one, and leave some out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.standalone.apiserver.answers import Answer
from ullage.standalone.apiserver.status import json_string

_STARTED = (
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
)
_CHECKS = {
    "/healthz": ("ping", "log", "etcd", *_STARTED),
    "/livez": ("ping", "log", "etcd", *_STARTED),
    "/readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_STARTED, "shutdown"),
}
_TEXT = "text/plain; charset=utf-8"
_HEADERS = (("x-content-type-options", "nosniff"),)

PATHS = tuple(f"{probe}/{check}" if check else probe for probe, checks in _CHECKS.items() for check in ("", *checks))


def health(path: str, *, verbose: bool, excluded: Sequence[str]) -> Answer | None:
    """The answer at a path of `PATHS`; None for any other."""
    if path not in _CHECKS:
        return Answer(200, b"ok", _TEXT, _HEADERS) if path in PATHS else None
    if not verbose:
        return Answer(200, b"ok", _TEXT, _HEADERS)
    lines = [f"[+]{check} {'excluded: ok' if check in excluded else 'ok'}" for check in _CHECKS[path]]
    if unknown := [json_string(name) for name in excluded if name not in _CHECKS[path]]:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    lines.append(f"{path.removeprefix('/')} check passed\n")
    return Answer(200, "\n".join(lines).encode(), _TEXT, _HEADERS)
