"""What the API server itself refuses of Snapshots and Volumes, as CEL in their definitions: it needs no process of ours.

So an object can be let go of while the webhook is away, and what was asked for stands nevertheless. Only where we bring the
definitions along: where Longhorn runs they are its own. What takes a look at other objects to be judged is left to the webhook.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.handles import ALIGNMENT, FORM
from ullage.kube.kinds import Rule
from ullage.names import LABEL_LIMIT

FEWEST: Final = 2  # snapshots that a limit allows at least
MOST: Final = 250  # and at most
MOST_REPLICAS: Final = 20
MOST_TICKETS: Final = 1000  # the server wants to know what a rule may cost

_SPEC: Final = Rule("has(self.spec)", "spec is required")


def _spec(rule: str, message: str, field: str) -> Rule:
    return Rule(rule, f"{field}{message}", path="spec", field_path=f".{field}")


def _given(field: str, otherwise: str, *, of: str = "self") -> str:
    """A field, or what its absence means."""
    return f"(has({of}.{field}) ? {of}.{field} : {otherwise})"


def _unchanged(field: str, why: str) -> Rule:
    rule = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return _spec(rule, f" cannot be changed{why}", field)


_ANOTHER: Final = "; delete the snapshot and create another"

SNAPSHOT_RULES: Final = (
    _SPEC,
    *(_unchanged(field, _ANOTHER) for field in ("volume", "createSnapshot", "labels")),
)

VOLUME_RULES: Final = (
    _SPEC,
    Rule(
        f"size(self.metadata.name) <= {LABEL_LIMIT}",
        f"metadata.name has {LABEL_LIMIT} characters at most: its snapshots have it as a label",
    ),
    _spec(
        rf"has(self.size) && self.size.matches('^[1-9][0-9]{{0,17}}$') && int(self.size) % {ALIGNMENT} == 0",
        f": a number of bytes, a multiple of {ALIGNMENT} (2Mi), is required",
        "size",
    ),
    _spec(
        "!has(oldSelf.size) || self.size == oldSelf.size",
        " cannot be changed: volumes do not grow here; restore a snapshot of it to a larger one",
        "size",
    ),
    _spec(
        f"{_given('snapshotMaxCount', '0')} == 0 || (self.snapshotMaxCount >= {FEWEST} && self.snapshotMaxCount <= {MOST})",
        f": {FEWEST} to {MOST} are allowed, or 0, which is {MOST}",
        "snapshotMaxCount",
    ),
    _spec(
        f"{_given('snapshotMaxSize', repr(''))}.matches('^(0|[1-9][0-9]{{0,17}})?$')",
        ": a number of bytes is allowed, or 0: no limit",
        "snapshotMaxSize",
    ),
    _spec(
        f"{_given('numberOfReplicas', '0')} >= 0 && {_given('numberOfReplicas', '0')} <= {MOST_REPLICAS}",
        f": 0 to {MOST_REPLICAS} are allowed",
        "numberOfReplicas",
    ),
    _spec(
        f"{_given('dataSource', repr(''))}.matches('^(snap://[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9._]*)?$')",
        f": {FORM} is allowed",
        "dataSource",
    ),
    _spec(
        f"{_given('dataSource', repr(''))} == {_given('dataSource', repr(''), of='oldSelf')}",
        " cannot be changed: the volume has its data already, or is given it",
        "dataSource",
    ),
    Rule(
        "has(self.until) && has(self.owner) && has(self.owner.kind) && self.owner.kind != '' && "
        "(self.owner.kind != 'Snapshot' || (has(self.owner.name) && has(self.owner.uid) && self.owner.uid != ''))",
        "an attachment ticket has an end (until) and an owner: its kind, and of a Snapshot name and uid",
        path="spec.attachmentTickets[]",
    ),
)
