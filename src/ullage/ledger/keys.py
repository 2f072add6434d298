"""How ledgers and the objects in them are named, and where each is watched. Pure."""

from __future__ import annotations

from typing import Final

NAMESPACE_PREFIX: Final = "ns-"


def ledger_name(namespace: str) -> str:
    """The ledger of a namespace, which slices share: `ns-team-a`."""
    return f"{NAMESPACE_PREFIX}{namespace}"


def namespace_of(ledger: str) -> str:
    """The namespace whose ledger this is; empty: it is none of those."""
    return ledger.removeprefix(NAMESPACE_PREFIX) if ledger.startswith(NAMESPACE_PREFIX) else ""


def key_of(kind: str, *, cluster: str = "", namespace: str = "", name: str) -> str:
    """The key of an object: `snapshots.longhorn.io//team-a/nightly`. `kind` is `Kind.name`."""
    return f"{kind}/{cluster}/{namespace}/{name}"


def source_of(key: str) -> str:
    """Where objects with such a key are watched: the kind's name, and `/cluster` behind it if that is not our own.

    Positions of different clusters say nothing about each other, so each has an `observed` of its own.
    """
    kind, cluster, _ = key.split("/", 2)
    return source_name(kind, cluster)


def source_name(kind: str, cluster: str = "") -> str:
    return f"{kind}/{cluster}" if cluster else kind


def kind_of(source: str) -> str:
    """The kind that a source is of, in whatever cluster."""
    return source.partition("/")[0]


def cluster_of(source: str) -> str:
    """The cluster that a source is in; empty: our own."""
    return source.partition("/")[2]
