"""How the objects of a ledger are named, and where each is watched. Pure."""

from __future__ import annotations


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


def cluster_of(source: str) -> str:
    """The cluster that a source is in; empty: our own."""
    return source.partition("/")[2]
