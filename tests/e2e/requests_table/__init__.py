"""The requests table: what kube-apiserver 1.36 answers, recorded row by row. The rows are facts, not computed."""

from __future__ import annotations

from . import (
    access,
    admission,
    applies,
    bodies,
    certificates,
    creates,
    custom,
    definitions,
    deletes,
    discovery,
    gets,
    lists,
    network_kinds,
    patches,
    policies,
    routes,
    small_kinds,
    storage_kinds,
    subresources,
    timeouts,
    updates,
    workload_kinds,
)
from .case import Case

CASES: tuple[Case, ...] = (
    *discovery.CASES,
    *routes.CASES,
    *gets.CASES,
    *lists.CASES,
    *creates.CASES,
    *bodies.CASES,
    *small_kinds.CASES,
    *network_kinds.CASES,
    *storage_kinds.CASES,
    *workload_kinds.CASES,
    *updates.CASES,
    *patches.CASES,
    *applies.CASES,
    *deletes.CASES,
    *subresources.CASES,
    *custom.CASES,
    *definitions.CASES,
    *access.CASES,
    *certificates.CASES,
    *admission.CASES,
    *policies.CASES,
    *timeouts.CASES,
)
