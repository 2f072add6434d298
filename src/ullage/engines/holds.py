"""Holds: for whom a Snapshot, and the Volume that has its data, must not go. Annotations, so that every tool shows them.

    hold.ullage.io/<uid>: {"kind":"VolumeSnapshot","namespace":"team-a","name":"nightly","keptBy":"VolumeSnapshotContent/…"}

While a Volume has one it is not deleted: its claim goes, its PersistentVolume stays. A held Snapshot is deleted by our own
controllers only. Whoever puts a hold takes it off again; one that is written otherwise, by a person, holds as well. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.kube.kinds import Meta, Value
from ullage.kube.objects import Json

PREFIX: Final = "hold.ullage.io/"
TOLD: Final = 5  # holders in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """For whom something stays. `kept_by` is the object with this uid, as `Kind/name`: the hold ends when it does. It is empty
    for a hold that nobody but a person takes off."""

    id: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    kept_by: str = ""
    text: str = ""  # what a person wrote instead

    def __str__(self) -> str:
        if not self.kept_by:
            return f"{PREFIX}{self.id}: {self.text or '(no text)'}"
        return f"{self.kind} {self.namespace}/{self.name}"


class _Written(Value):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    kept_by: str = ""


def holds_of(meta: Meta) -> tuple[Hold, ...]:
    return tuple(_read(key.removeprefix(PREFIX), meta.annotations[key]) for key in sorted(meta.annotations) if is_hold(key))


def is_hold(annotation: str) -> bool:
    return annotation.startswith(PREFIX)


def _read(id: str, text: str) -> Hold:
    try:
        found = msgspec.json.decode(text, type=_Written)
    except msgspec.MsgspecError:
        return Hold(id=id, text=text)
    if not found.kept_by:
        return Hold(id=id, text=text)
    return Hold(id=id, kind=found.kind, namespace=found.namespace, name=found.name, kept_by=found.kept_by)


def annotations_of(holds: Iterable[Hold]) -> dict[str, str]:
    return {f"{PREFIX}{one.id}": _written(one) for one in holds}


def _written(hold: Hold) -> str:
    found = _Written(kind=hold.kind, namespace=hold.namespace, name=hold.name, kept_by=hold.kept_by)
    return msgspec.json.encode(found).decode()


def change(meta: Meta, *, put: Iterable[Hold] = (), take: Iterable[Hold] = ()) -> Json | None:
    """The merge patch that puts some holds on and takes others off; None where nothing changes."""
    wanted: dict[str, str | None] = {
        key: value for key, value in annotations_of(put).items() if meta.annotations.get(key) != value
    }
    wanted |= {key: None for one in take if (key := f"{PREFIX}{one.id}") in meta.annotations}
    return {"metadata": {"annotations": wanted}} if wanted else None


def unneeded(meta: Meta, wanted: Mapping[str, Hold]) -> tuple[Hold, ...]:
    """The holds that nobody wants any more, of those that are ours to take off."""
    return tuple(one for one in holds_of(meta) if one.kept_by and one.id not in wanted)


def listed(holds: Sequence[Hold]) -> str:
    """Who holds, for a sentence: each once."""
    names = list(dict.fromkeys(map(str, holds)))
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(names[:TOLD]) + more
