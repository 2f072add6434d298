"""What can be asked about: an object that is charged, a virtual machine, a namespace; as a person writes it, and as it is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from ullage.cli.common.session import Missing, Session
from ullage.engines.api import SNAPSHOTS as ENGINE_SNAPSHOTS
from ullage.engines.handles import NAMESPACE as ENGINES_NAMESPACE
from ullage.errors import BadInput
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import find_condition
from ullage.names import is_subdomain
from ullage.vms.api.backups import BACKUPS
from ullage.vms.api.machines import MACHINES

ALLOWED: Final = "volumesnapshot/NAME, vmbackup/NAME, snapshots.longhorn.io/NAME, vm/NAME or ns/NAME is allowed"
_SNAPSHOTS: Final = ("volumesnapshot", "volumesnapshots", "vs")
_KINDS: Final[tuple[tuple[tuple[str, ...], Kind[Any], str], ...]] = (
    (("virtualmachinebackup", "virtualmachinebackups", "vmbackup", "vmb"), BACKUPS, ""),
    (("snapshots.longhorn.io", "snapshot.longhorn.io", "lhs"), ENGINE_SNAPSHOTS, ENGINES_NAMESPACE),
    (("virtualmachine", "virtualmachines", "vm"), MACHINES, ""),
    (("namespace", "namespaces", "ns"), NAMESPACES, "-"),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """An object, and what is known of how it is getting on. `state`: ready, not ready, or failed, with the reason."""

    kind: Kind[Any]
    obj: Object
    state: str = ""
    charged: bool = True  # it can take something by itself

    def __str__(self) -> str:
        meta = self.obj.metadata
        return f"{self.kind.kind.lower()}{f'.{self.kind.group}' if self.kind.group else ''} " + (
            f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        )


def parse(given: str) -> tuple[str, str]:
    """The kind in lower case, and the name."""
    kind, slash, name = given.partition("/")
    known = (*_SNAPSHOTS, *(word for words, _, _ in _KINDS for word in words))
    word = kind.lower()
    if not slash or not is_subdomain(name) or not (word in known or word.partition(".")[0] in _SNAPSHOTS):
        raise BadInput("KIND/NAME", given or "(empty)", ALLOWED)
    return word, name


async def find(session: Session, word: str, name: str) -> Subject:
    """Raises Missing."""
    short, _, group = word.partition(".")
    if short in _SNAPSHOTS:
        return await _snapshot(session, name, group)
    kind, place = next((kind, place) for words, kind, place in _KINDS if word in words)
    namespace = session.namespace if not place else place.strip("-")
    obj = await _found(session, kind, name, namespace)
    if obj is None:
        raise Missing(f"there is no {kind.name} {name}{f' in namespace {namespace}' if namespace else ''}")
    return Subject(kind, obj, _state(kind, obj), charged=kind not in (MACHINES, NAMESPACES))


async def _snapshot(session: Session, name: str, group: str) -> Subject:
    asked: Sequence[Any] = [one for one in session.among if not group or one.snapshots.group == group]
    for dialect in asked:
        obj = await _found(session, dialect.snapshots, name, session.namespace)
        if obj is not None:
            state = dialect.read_snapshot(obj).state
            if state.ready:
                return Subject(dialect.snapshots, obj, "ready")
            about = state.problem or state.waiting
            told = f"not ready: {about.message} ({about.reason})" if about else "not ready"
            return Subject(dialect.snapshots, obj, told)
    raise Missing(f"there is no volumesnapshot {name} in namespace {session.namespace}")


async def _found(session: Session, kind: Kind[Any], name: str, namespace: str) -> Any:
    try:
        return await session.client.find(kind, name, namespace)
    except NotFound:  # the kind is not served
        return None


def _state(kind: Kind[Any], obj: Any) -> str:
    if kind not in (BACKUPS, ENGINE_SNAPSHOTS):
        return ""
    if obj.status.ready_to_use is True:
        return "ready"
    failed = find_condition(obj.status.conditions, "Failed")
    if failed is not None and failed.status == "True":
        return f"failed: {failed.message} ({failed.reason})"
    error = obj.status.error
    said = error if isinstance(error, str) else "" if error is UNSET else error.message
    return f"not ready: {said}" if said else "not ready"
