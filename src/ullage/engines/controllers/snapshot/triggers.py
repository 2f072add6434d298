"""Which Snapshots are reconciled when an Engine or a Volume changes: with 30,000 of them, as few as possible.

An engine's status changes all the time: its head grows, a snapshot is added or removed. Only the Snapshots whose own entry
changed are queued; those being deleted when a purge makes progress; and all of a volume when it is attached or detached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ullage.engines.api import Engine, Volume
from ullage.engines.chain import HEAD
from ullage.engines.lookup import Lookup, volume_key
from ullage.engines.model import comes_or_goes
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.controller import Source
from ullage.kube.objects import is_deleting


@dataclass(frozen=True, slots=True)
class EngineSource(Source[Engine, Key]):
    """`keys` gives all snapshots of an engine's volume, `going` those of them that are being deleted."""

    going: Callable[[Engine], Iterable[Key]] = lambda engine: ()

    def affected(self, old: Engine | None, new: Engine | None) -> Iterable[Key]:
        if old is None or new is None or _of_all(old) != _of_all(new):
            ends = [one for one in (old, new) if one is not None]
            return dict.fromkeys(key for one in ends for key in self.keys(one))
        found = dict.fromkeys(changed_entries(old, new))
        if (old.status.purge_status or {}) != (new.status.purge_status or {}):
            found |= dict.fromkeys(self.going(new))
        return found


def _of_all(engine: Engine) -> tuple[str, str, str]:
    """What every snapshot's status, or next step, depends on."""
    return engine.status.current_state, engine.spec.volume_size, engine.spec.volume_name


def changed_entries(old: Engine, new: Engine) -> Iterable[Key]:
    before, after = old.status.snapshots or {}, new.status.snapshots or {}
    namespace = new.metadata.namespace
    for name in before.keys() | after.keys():
        if name != HEAD and before.get(name) != after.get(name):
            yield Key(namespace, name)


def engine_source(lookup: Lookup) -> EngineSource:
    def of_volume(engine: Engine) -> Iterable[Key]:
        return lookup.keys_named(volume_key(engine))

    def going(engine: Engine) -> Iterable[Key]:
        return (key_of(one) for one in lookup.snapshots_named(volume_key(engine)) if is_deleting(one.metadata))

    return EngineSource(lookup.engines, of_volume, going=going)


def volume_source(lookup: Lookup) -> Source[Volume, Key]:
    return Source(lookup.volumes, lambda volume: lookup.keys_named(key_of(volume)), when=comes_or_goes)
