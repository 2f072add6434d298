"""What job pods do, beside the reconcilers: each pod's work is a task, its copying a thread.

Nothing of a run is kept: if this process dies, the pod still says that it runs, and the next one begins again; a copy that is
made twice is the same copy. A run that is over is remembered until its end is seen in the API, so that it is made once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ullage.kube.builtin.core import Container, Pod
from ullage.kube.cache.indexer import Key, key_of
from ullage.standalone.world.controllers.pod import copying
from ullage.standalone.world.controllers.pod.commands import CannotRun, Copy, Sleep, Step, parse_command
from ullage.standalone.world.controllers.pod.copying import CopyFailed
from ullage.standalone.world.controllers.pod.rules import CANNOT_RUN, FAILED, Outcome

Roots = Callable[[str], Path]  # from the name of a volume in the pod to its directory


@dataclass(slots=True)
class _Run:
    uid: str
    stop: threading.Event = field(default_factory=threading.Event)
    task: asyncio.Task[None] | None = None
    outcomes: dict[str, Outcome] | None = None  # once it is over


class Runs:
    def __init__(self) -> None:
        self._runs: dict[Key, _Run] = {}

    async def __aenter__(self) -> Runs:
        return self

    async def __aexit__(self, *_: object) -> None:
        for key in list(self._runs):
            self.end(key)

    def outcomes(self, pod: Pod) -> dict[str, Outcome] | None:
        """How each container ended, once the run is over."""
        run = self._runs.get(key_of(pod))
        return run.outcomes if run is not None and run.uid == pod.metadata.uid else None

    def begin(self, pod: Pod, roots: Roots, *, over: Callable[[Key], None]) -> None:
        """Begins a pod's work, if it has not begun. `over` is called when it has ended."""
        key = key_of(pod)
        if (found := self._runs.get(key)) is not None:
            if found.uid == pod.metadata.uid:
                return
            self.end(key)
        run = self._runs[key] = _Run(pod.metadata.uid)

        async def work() -> None:
            run.outcomes = await _all(pod, roots, run.stop)
            over(key)

        run.task = asyncio.create_task(work(), name=f"run {key}")

    def end(self, key: Key) -> None:
        """The pod is gone, or going, or its end is written down."""
        run = self._runs.pop(key, None)
        if run is not None:
            run.stop.set()
            if run.task is not None:
                run.task.cancel()


async def _all(pod: Pod, roots: Roots, stop: threading.Event) -> dict[str, Outcome]:
    """Init containers one after the other, up to the first that fails; then the others, at once."""
    done: dict[str, Outcome] = {}
    for container in pod.spec.init_containers:
        done[container.name] = await _container(container, roots, stop)
        if done[container.name].exit_code:
            return done
    ended = await asyncio.gather(*(_container(one, roots, stop) for one in pod.spec.containers))
    return done | {one.name: outcome for one, outcome in zip(pod.spec.containers, ended, strict=True)}


async def _container(container: Container, roots: Roots, stop: threading.Event) -> Outcome:
    try:
        await _steps(parse_command(container), roots, stop)
    except CannotRun as error:
        return Outcome(CANNOT_RUN, str(error))
    except CopyFailed as error:
        return Outcome(FAILED, str(error))
    return Outcome()


async def _steps(steps: Sequence[Step], roots: Roots, stop: threading.Event) -> None:
    for step in steps:
        match step:
            case Copy():
                await asyncio.to_thread(copying.copy, step, roots, stop=stop)
            case Sleep(seconds):
                await (asyncio.Event().wait() if seconds == float("inf") else asyncio.sleep(seconds))
