"""`/healthz`, `/livez` and `/readyz`: whether the server works, check by check.

The checks carry the names that kube-apiserver gives its own, as far as there is something here that they could mean: probes and
scripts ask for them one by one, and leave some out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ullage.standalone.apiserver.request.answers import Answer
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


class Health:
    """What is true of the server now. It is not ready before its controllers work, nor once it stops."""

    def __init__(self, broken: Callable[[], bool]) -> None:
        self._broken = broken  # whether what was written last could not be stored
        self.started = False
        self.stopping = False

    def _fails(self, check: str) -> bool:
        if check in ("etcd", "etcd-readiness"):
            return self._broken()
        if check == "shutdown":
            return self.stopping
        return not self.started and (check == "informer-sync" or check in _STARTED)

    def answer(self, path: str, *, verbose: bool, excluded: Sequence[str]) -> Answer | None:
        """The answer at a path of `PATHS`; None for any other."""
        if path not in PATHS:
            return None
        if path not in _CHECKS:
            check = path.split("/", 2)[2]
            return _text(500, f"internal server error: {check} failed\n") if self._fails(check) else _text(200, "ok")
        checks = _CHECKS[path]
        failed = {check for check in checks if check not in excluded and self._fails(check)}
        if not failed and not verbose:
            return _text(200, "ok")
        lines = [_line(check, failed=check in failed, excluded=check in excluded) for check in checks]
        if unknown := [json_string(name) for name in excluded if name not in checks]:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
        lines.append(f"{path.removeprefix('/')} check {'failed' if failed else 'passed'}\n")
        return _text(500 if failed else 200, "\n".join(lines))


def _line(check: str, *, failed: bool, excluded: bool) -> str:
    if failed:
        return f"[-]{check} failed: reason withheld"
    return f"[+]{check} {'excluded: ok' if excluded else 'ok'}"


def _text(code: int, text: str) -> Answer:
    return Answer(code, text.encode(), _TEXT, _HEADERS)
