"""Whether the API server of a user cluster is told to ask the seed about Machines, by what is registered there. Pure.

A hook that is registered may be switched off all the same, by a condition or a selector. Whether the URL is that of the seed
is known to the seed alone, which compares every field and puts back what somebody has changed (`admission/elsewhere.py`).

Whoever administers the cluster can write this, too. So it says when the seed begins to be asked, and nothing is admitted by it:
what was made while nobody was asked is counted past the limit whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ullage.kube.builtin.admissionregistration import WebhookConfiguration
from ullage.kube.objects import Json
from ullage.projects.api.machines import MACHINES

SELECTED: Final = "app.kubernetes.io/managed-by=ullage"  # the label of what we register
ADMITS: Final = "project-machine."  # how the hook that books a new Machine is called there begins
STAMPS: Final = "project-machine-stamp."
ANY: Final = "*"


def missing(validating: Iterable[WebhookConfiguration], mutating: Iterable[WebhookConfiguration]) -> list[str]:
    """The hooks that are not asked about every new Machine, as people call them, with the fields that keep them from it; none:
    all are asked."""
    found = []
    for what, name, configurations in (
        ("the one that stamps Machines", STAMPS, mutating),
        ("the one that admits Machines", ADMITS, validating),
    ):
        entries = [hook for one in configurations for hook in one.webhooks if str(hook.get("name")).startswith(name)]
        if not entries:
            found.append(what)
        elif fields := min((_edited(one) for one in entries), key=len):
            found.append(f"{what} (edited: {', '.join(fields)})")
    return found


def _edited(hook: Json) -> list[str]:
    """The fields by which some new Machine is not asked about."""
    return [field for field, holds in _SOUND.items() if not holds(hook.get(field))]


def _is_new_machines(rules: Any) -> bool:
    wanted = {
        "apiGroups": MACHINES.group,
        "apiVersions": MACHINES.version,
        "resources": MACHINES.plural,
        "operations": "CREATE",
    }
    return any(
        all(value in (rule.get(field) or ()) or ANY in (rule.get(field) or ()) for field, value in wanted.items())
        and rule.get("scope", ANY) in (ANY, "Namespaced")
        for rule in rules or ()
    )


def _is_empty(selector: Any) -> bool:
    return not selector or not any(selector.values())


_SOUND: Final[Mapping[str, Callable[[Any], bool]]] = {
    "clientConfig": lambda config: bool((config or {}).get("url")),  # a service is one in the user cluster
    "rules": _is_new_machines,
    "namespaceSelector": _is_empty,
    "objectSelector": _is_empty,
    "matchConditions": lambda conditions: not conditions,
    "failurePolicy": lambda policy: policy == "Fail",
}
