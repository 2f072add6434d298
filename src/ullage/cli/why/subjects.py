"""What can be asked about: an object that is charged, a virtual machine, a namespace; as a person writes it, and as it is
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from ullage.cli.common.session import BOTH, Missing, Session
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINES_NAMESPACE
from ullage.errors import BadInput
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import find_condition
from ullage.names import is_subdomain
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import VIRTUAL_MACHINES

ALLOWED: Final = "volumesnapshot/NAME, vmbackup/NAME, snapshots.longhorn.io/NAME, vm/NAME or ns/NAME is allowed"


def _words(kind: Kind[Any], *more: str) -> Iterator[str]:
    """What a kind is called: as kubectl takes it, with its group or without."""
    for word in (kind.kind.lower(), kind.plural, *kind.short_names, *more):
        yield word
        if kind.group:
            yield f"{word}.{kind.group}"


_SNAPSHOTS: Final = {word for dialect in BOTH for word in _words(dialect.snapshots)}
_KINDS: Final[Mapping[str, Kind[Any]]] = {
    **{word: kind for kind in (VM_BACKUPS, VIRTUAL_MACHINES) for word in _words(kind)},
    **dict.fromkeys(_words(NAMESPACES, "ns"), NAMESPACES),
    # Without its group a snapshot is anybody's.
    **{word: ENGINE_SNAPSHOTS for word in _words(ENGINE_SNAPSHOTS) if word not in ("snapshot", "snapshots")},
}


@dataclass(frozen=True, slots=True)
class Subject:
    """An object, and what is known of how it is getting on. `state`: ready, not ready, or failed, with the reason."""

    kind: Kind[Any]
    obj: Object
    state: str = ""
    charged: bool = True  # it can take something by itself
    claim: str = ""  # of a VolumeSnapshot, where it has one

    def __str__(self) -> str:
        meta = self.obj.metadata
        return f"{_called(self.kind)} {f'{meta.namespace}/' if meta.namespace else ''}{meta.name}"

    @property
    def is_volume_snapshot(self) -> bool:
        return any(self.kind is dialect.snapshots for dialect in BOTH)


def _called(kind: Kind[Any]) -> str:
    return f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}"


def parse(given: str) -> tuple[str, str]:
    """The kind in lower case, and the name."""
    kind, slash, name = given.partition("/")
    word = kind.lower()
    if not slash or not is_subdomain(name) or not (word in _SNAPSHOTS or word in _KINDS):
        raise BadInput("KIND/NAME", given or "(empty)", ALLOWED)
    return word, name


async def find(session: Session, word: str, name: str) -> Subject:
    """Raises Missing."""
    if word in _SNAPSHOTS:
        return await _snapshot(session, name, word.partition(".")[2])
    kind = _KINDS[word]
    namespace = "" if not kind.namespaced else ENGINES_NAMESPACE if kind is ENGINE_SNAPSHOTS else session.namespace
    obj = await _found(session, kind, name, namespace)
    if obj is None:
        raise Missing(f"there is no {_called(kind)} {name}{f' in namespace {namespace}' if namespace else ''}")
    return Subject(kind, obj, _state(kind, obj), charged=kind not in (VIRTUAL_MACHINES, NAMESPACES))


async def _snapshot(session: Session, name: str, group: str) -> Subject:
    asked: Sequence[Any] = [one for one in session.among if not group or one.snapshots.group == group]
    for dialect in asked:
        obj = await _found(session, dialect.snapshots, name, session.namespace)
        if obj is not None:
            snapshot = dialect.read_snapshot(obj)
            about = snapshot.state.problem or snapshot.state.waiting
            told = f"not ready: {about.message} ({about.reason})" if about else "not ready"
            return Subject(dialect.snapshots, obj, "ready" if snapshot.state.ready else told, claim=snapshot.claim)
    raise Missing(f"there is no volumesnapshot {name} in namespace {session.namespace}")


async def _found(session: Session, kind: Kind[Any], name: str, namespace: str) -> Any:
    try:
        return await session.client.find(kind, name, namespace)
    except NotFound:  # the kind is not served
        return None


def _state(kind: Kind[Any], obj: Any) -> str:
    if kind not in (VM_BACKUPS, ENGINE_SNAPSHOTS):
        return ""
    if obj.status.ready_to_use is True:
        return "ready"
    failed = find_condition(obj.status.conditions, "Failed")
    if failed is not None and failed.status == "True":
        return f"failed: {failed.message} ({failed.reason})"
    error = obj.status.error
    said = error if isinstance(error, str) else "" if error is UNSET else error.message
    return f"not ready: {said}" if said else "not ready"
