"""SnapshotShare: which snapshot an administrator gives to which other namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions
from ullage.names import LABEL_LIMIT, LABEL_PATTERN, SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN, or_empty

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"
MOST_NAMED: Final = 100
MOST_TARGETS: Final = 500
READY: Final = "Ready"

ShareState = Literal["Preparing", "Shared", "Waiting", "Refused", "Removed", "Revoking"]


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


_LABEL: Final = _mark(maxLength=63)
_NAME: Final = _mark(minLength=1, maxLength=SUBDOMAIN_LIMIT, pattern=SUBDOMAIN_PATTERN)
_NAMESPACE: Final = _mark(minLength=1, maxLength=LABEL_LIMIT, pattern=LABEL_PATTERN)
_OPTIONAL_NAME: Final = _mark(maxLength=SUBDOMAIN_LIMIT, pattern=or_empty(SUBDOMAIN_PATTERN))
_NONE: Final[Mapping[str, str]] = {}


class ShareSource(Value):
    """The snapshot that is given."""

    namespace: Annotated[str, _NAMESPACE]
    """Its namespace."""
    name: Annotated[str, _NAME]
    """Its name."""


class ShareTargets(Value):
    """The namespaces that get it: those that are named, and those with the labels. Its own is never among them."""

    namespaces: Annotated[tuple[Annotated[str, _NAMESPACE], ...], ATOMIC, _mark(maxItems=MOST_NAMED)] = ()
    """Namespaces by name. 100 at most."""
    match_labels: Annotated[Mapping[str, Annotated[str, _LABEL]], _mark(maxProperties=16)] = _NONE
    """Namespaces with all of these labels, those that come later, too. Absent: none. Whoever may label namespaces decides who
    gets the snapshot. 500 namespaces at most get it: those that have it already, then by name."""


class ShareSpec(Value):
    """What is granted. Only the targets can be changed."""

    source: ShareSource
    """The snapshot that is given. It cannot be changed."""
    dialect: Literal["ga", "prototype"] = "ga"
    """The API of the snapshot, here and there: snapshot.storage.k8s.io/v1 (ga) or volumesnapshot.external-storage.k8s.io/v1
    (prototype). It cannot be changed."""
    targets: ShareTargets
    """The namespaces that get it. From one that is taken out again, the snapshot is removed."""
    name: Annotated[str, _OPTIONAL_NAME] = ""
    """What the VolumeSnapshot is called there. Absent: as at the source. It cannot be changed."""


class ShareTarget(Value):
    """How far it is in one namespace."""

    namespace: str
    """The namespace."""
    namespace_uid: str = msgspec.field(default="", name="namespaceUID")
    """The uid of the namespace: a later one of the name gets nothing by this grant."""
    record: str = ""
    """The VolumeSnapshotContent, or VolumeSnapshotData, that stands for the data there."""
    snapshot_uid: str = msgspec.field(default="", name="snapshotUID")
    """The uid of the VolumeSnapshot, once it is there."""
    state: ShareState = "Preparing"
    """Preparing: it is being made. Shared: it is there. Waiting: something has to come first. Refused: there is no room for it,
    or the name is taken; it is tried again. Removed: the namespace has deleted it, and does not get it again. Revoking: it is
    being taken back."""
    message: str = ""
    """Why, in a sentence."""


class ShareStatus(Value):
    """What came of it."""

    source_uid: str = msgspec.field(default="", name="sourceUID")
    """The uid of the snapshot that was found first: a later one of the name is not given."""
    shared: Annotated[int, _mark(minimum=0)] = 0
    """In how many namespaces it is."""
    targets: Annotated[tuple[ShareTarget, ...], listed_by("namespace")] = ()
    """How far it is in each namespace."""
    conditions: Conditions = ()
    """`Ready`: whether it is in every namespace that is to have it, and has not deleted it."""


class SnapshotShare(Object):
    """Gives a snapshot to other namespaces: each gets a VolumeSnapshot of its own that stands for the same data, and pays for
    it. The data goes when the last of them, and the source, have gone. For administrators only."""

    spec: ShareSpec
    """What is granted."""
    status: ShareStatus = ShareStatus()
    """What came of it."""


SHARES: Final = Kind(
    GROUP,
    VERSION,
    "SnapshotShare",
    "snapshotshares",
    SnapshotShare,
    namespaced=False,
    short_names=("snapshare",),
    columns=(
        Column("Namespace", ".spec.source.namespace", description="Whose snapshot is given."),
        Column("Snapshot", ".spec.source.name", description="The snapshot."),
        Column("Shared", ".status.shared", type="integer", description="In how many namespaces it is."),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status", description="Whether it is where it is to be."),
        AGE,
    ),
    rules=(
        Rule(
            # Names that the schema refuses today may have been stored before: they can be corrected.
            f"self == oldSelf || !oldSelf.__namespace__.matches('{LABEL_PATTERN}')"
            + f" || !oldSelf.name.matches('{SUBDOMAIN_PATTERN}')",
            "the source of a share cannot be changed: delete it, and create another",
            path="spec.source",
        ),
        Rule("self == oldSelf", "the API of a share cannot be changed: delete it, and create another", path="spec.dialect"),
        Rule(
            "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '')"
            f" || (has(oldSelf.name) && !oldSelf.name.matches('{or_empty(SUBDOMAIN_PATTERN)}'))",
            "the name of a share's snapshots cannot be changed: delete it, and create another",
            path="spec",
        ),
    ),
)
