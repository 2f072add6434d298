"""What restoring does to the outside: the few calls of the API that it makes, Secrets, and Events."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from ullage.errors import Retryable
from ullage.kube.builtin.core import SECRETS
from ullage.kube.client.conditional import Patcher
from ullage.kube.events.recorder import Reason
from ullage.kube.kinds import Kind, Object
from ullage.snapshots.backends.base import NO_SECRETS, Secrets
from ullage.snapshots.model import Ref
from ullage.snapshots.secrets import decoded

T = TypeVar("T", bound=Object)


class Api(Patcher, Protocol):
    """What is needed of a `kube.Client`."""

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None: ...

    async def create(self, kind: Kind[T], obj: T) -> T: ...

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None: ...


class EventRecorder(Protocol):
    """What is needed of a `kube.Recorder`."""

    def record(self, kind: Kind[Any], obj: Object, reason: Reason, *, note: str) -> None: ...


class SecretMissing(Retryable):
    """Nobody watches Secrets: it is looked for again."""


async def read_secrets(api: Api, ref: Ref | None) -> Secrets:
    """What is in a Secret now. Read for each call and kept nowhere, so that a new password is used at once."""
    if ref is None:
        return NO_SECRETS
    found = await api.find(SECRETS, ref.name, ref.namespace)
    if found is None:
        raise SecretMissing(f"Secret {ref.namespace}/{ref.name} does not exist")
    return decoded(found)


def record_event(
    recorder: EventRecorder, kind: Kind[Any], obj: Object, *, reason: str, note: str, normal: bool = False
) -> None:
    recorder.record(kind, obj, Reason(reason, action="Restore", type="Normal" if normal else "Warning"), note=note)
