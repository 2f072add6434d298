"""What holds a cut asks hooks for: have the pre commands of these claims run, say when all may be cut, and let go.

    prepare() ── Waiting ──▶ prepare() ── HooksReady ──▶ `go` to every member ──▶ all cut, failed or given up ──▶ leave()
                                  └────── HooksFailed ─▶ give up ──▶ leave()

All of it is level-triggered: `prepare` is called again and again with the same arguments, whenever a HookRun that it is in
has changed (`holders_of` gives the keys for a controller's source), and does nothing that was done. Members are told to be cut
only while `prepare` answers HooksReady: ask it right before each. `leave` may be called any number of times; post commands run
once nobody is left that holds the run. A holder that is deleted without a word is found out, and let go, by itself; a run that
has lasted for too long ends whether its holders are done or not, and `prepare` answers Waiting, then, until it is begun anew;
or Failed, where there are several: what took too long once would freeze pods over and over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeVar

import msgspec

from ullage.kube.kinds import Kind, Object, Value
from ullage.names import SUBDOMAIN_LIMIT, SUBDOMAIN_PATTERN, or_empty
from ullage.policies.cut_hooks.api import HookSpec
from ullage.snapshots.model import Problem

T = TypeVar("T", bound=Object)

# Why a cut is not made, as a snapshot says it.
HOOK_FAILED: Final = "HookFailed"
HOOK_TIMED_OUT: Final = "HookTimedOut"


_NAME: Final = msgspec.Meta(extra_json_schema={"maxLength": SUBDOMAIN_LIMIT, "pattern": or_empty(SUBDOMAIN_PATTERN)})


class HookHolder(Value):
    """An object on whose behalf hooks are run: a VolumeSnapshot, or a group of them."""

    group: str
    """The API group of its kind."""
    version: str
    """The version of its kind."""
    resource: str
    """The plural of its kind: `volumesnapshots`."""
    namespace: Annotated[str, _NAME]
    """Its namespace."""
    name: Annotated[str, _NAME]
    """Its name."""
    uid: str
    """Its uid."""


def holder_of(kind: Kind[T], obj: T) -> HookHolder:
    meta = obj.metadata
    return HookHolder(
        group=kind.group, version=kind.version, resource=kind.plural, namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


@dataclass(frozen=True, slots=True)
class HooksWaiting:
    """Pre commands are to be run, or are running, or an earlier run in the same pod has not ended."""

    message: str


@dataclass(frozen=True, slots=True)
class HooksReady:
    """All that is to be run before the cut has been run; or there is nothing to run."""

    runs: tuple[str, ...] = ()  # names of HookRuns
    until: str = ""  # when the first of them ends, whatever has been cut by then; empty: none does


@dataclass(frozen=True, slots=True)
class HooksFailed:
    """A pre command has failed, and says that nothing is to be cut then; or hooks are declared that make no sense."""

    problem: Problem


HookAnswer = HooksWaiting | HooksReady | HooksFailed


class CutHooks(Protocol):
    """Made by `cut_hooks.slice.hooks_of(wiring)`; a test hands in its own."""

    async def prepare(self, holder: HookHolder, claims: Iterable[str], spec: HookSpec | None = None) -> HookAnswer:
        """Has hooks run in the running pods of the holder's namespace that mount these claims. `spec` is for those that
        declare none themselves."""

    async def leave(self, holder: HookHolder) -> None:
        """The holder has been cut, or is not going to be: post commands may run as far as it is concerned."""
