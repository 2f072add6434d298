"""How shares read, in tables and for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, plain
from ullage.kube.objects import Json, is_deleting
from ullage.policies.sharing.api import SHARES, SnapshotShare
from ullage.policies.sharing.model import name_there

NO_NAMESPACE: Final = "(none)"  # that gets it


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """A share in one of its namespaces."""

    share: SnapshotShare
    namespace: str
    state: str = ""
    message: str = ""


def rows(shares: Iterable[SnapshotShare]) -> Iterator[ShareRow]:
    """Those that are named or have it; a share for nobody has a row, too."""
    for one in sorted(shares, key=lambda one: (one.spec.source.namespace, one.spec.source.name, one.metadata.name)):
        found = {entry.namespace: entry for entry in one.status.targets}
        namespaces = sorted({*found, *one.spec.targets.namespaces})
        if not namespaces:
            yield ShareRow(share=one, namespace=NO_NAMESPACE, message=_labels(one))
        for name in namespaces:
            entry = found.get(name)
            if entry is None:
                state = "Revoking" if is_deleting(one.metadata) else "Waiting"
                message = "" if is_deleting(one.metadata) else "no such namespace yet, or it was not looked at yet"
                yield ShareRow(share=one, namespace=name, state=state, message=message)
            else:
                yield ShareRow(share=one, namespace=name, state=entry.state, message=plain(entry.message))


def _labels(share: SnapshotShare) -> str:
    labels = ",".join(f"{key}={value}" for key, value in sorted(share.spec.targets.match_labels.items()))
    return f"no namespace has the labels {labels}" if labels else "it names no namespace"


def layout() -> Table[ShareRow]:
    return Table(
        head=("NAMESPACE", "SNAPSHOT", "TO", "AS", "STATE", "SHARE", "MESSAGE"),
        cells=lambda one, _: (
            one.share.spec.source.namespace,
            one.share.spec.source.name,
            one.namespace,
            name_there(one.share),
            one.state or NONE,
            one.share.metadata.name,
            one.message or NONE,
        ),
        name=lambda one: f"{SHARES.kind.lower()}.{SHARES.group}/{one.share.metadata.name}",
        uid=lambda one: f"{one.share.metadata.uid}/{one.namespace}",
        body=body,
        state="STATE",
    )


def body(one: ShareRow) -> Json:
    """For programs. What is not known is left out."""
    spec = one.share.spec
    said = {"state": one.state, "message": one.message}
    return {
        "share": one.share.metadata.name,
        "source": {"namespace": spec.source.namespace, "name": spec.source.name},
        "dialect": spec.dialect,
        **({"namespace": one.namespace} if one.namespace != NO_NAMESPACE else {}),
        "name": name_there(one.share),
        **{key: value for key, value in said.items() if value},
    }
