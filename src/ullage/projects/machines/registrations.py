"""Whether the API server of a user cluster is told to ask the seed about Machines, by what is registered there. Pure.

Whoever administers the cluster can write this, too. So it says when the seed begins to be asked, and nothing is admitted by it:
what was made while nobody was asked is counted past the limit whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.builtin.admissionregistration import WebhookConfiguration

SELECTED: Final = "app.kubernetes.io/managed-by=ullage"  # the label of what we register
ADMITS: Final = "project-machine."  # how the hook that books a new Machine is called there begins
STAMPS: Final = "project-machine-stamp."


def missing(validating: Iterable[WebhookConfiguration], mutating: Iterable[WebhookConfiguration]) -> list[str]:
    """The hooks that are not registered, as people call them; none: every new Machine is asked about."""
    found = []
    if not _has(mutating, STAMPS):
        found.append("the one that stamps Machines")
    if not _has(validating, ADMITS):
        found.append("the one that admits Machines")
    return found


def _has(configurations: Iterable[WebhookConfiguration], name: str) -> bool:
    return any(hook.name.startswith(name) for one in configurations for hook in one.webhooks)
