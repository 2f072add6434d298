"""The whole server without sockets, and what must hold whatever is sent to it.

No request fails in the server or stalls it. What is refused changes nothing; what is accepted can be read, patched, deleted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.hostile.kinds import VESSELS
from tests.unit.standalone.apiserver.server_kit import Kit, credentials, quiet, running_kit

Json = dict[str, Any]
T = TypeVar("T")
SECONDS: Final = float(os.environ.get("FUZZ_SECONDS", "8"))  # for each target
STALL: Final = 0.5  # seconds of processor time that no small request may take
NAMESPACE: Final = "default"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def accepted(self) -> bool:
        return self.code in (200, 201)


# Of these kube-apiserver makes a 500, too.
KUBERNETES_TOO = (b"resourceVersion should not be set on objects to be created", b"etcdserver: request is too large")


class Server:
    """Asked as uvicorn would ask it, with the rights of the administrator."""

    def __init__(self, kit: Kit, loop: asyncio.AbstractEventLoop) -> None:
        self.kit = kit
        self.errors: list[str] = []
        self.slowest = 0.0
        self._loop = loop
        self._token = credentials().admin_token

    def ask(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> Answer:
        """The answer, once it is known to be one that a sound server gives."""
        before, began = self.kit.store.revision, time.process_time()
        answer = self._loop.run_until_complete(self._ask(method, path, body, media))
        took = time.process_time() - began
        self.slowest = max(self.slowest, took)
        logged = "\n".join(self.errors)
        self.errors.clear()
        assert not logged, logged
        assert not answer.body.startswith(b'{"kind":"Status"') or b"Internal error occurred" not in answer.body, answer.body
        # An apply whose types do not fit is a 500 of kube-apiserver's; so is a strategic merge whose lists have no keys.
        known = method == "PATCH" or any(text in answer.body for text in KUBERNETES_TOO)
        # Both wait: for as long as was asked, or a few seconds for a version that has not come yet.
        late = "timeout=" in path or b"ResourceVersionTooLarge" in answer.body
        assert answer.code < 500 or (answer.code == 500 and known) or (answer.code == 504 and late), answer.body
        assert took < STALL, f"{took:.2f} s of processor time"
        if answer.code >= 400:
            assert self.kit.store.revision == before, f"{answer.code}, and yet something was written"
        return answer

    async def _ask(self, method: str, path: str, body: bytes, media: str) -> Answer:
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        code, found = 0, []

        async def receive() -> Any:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop(0)

        async def send(message: Any) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            else:
                found.append(message.get("body", b""))

        raw, _, query = path.partition("?")
        headers = [(b"authorization", f"Bearer {self._token}".encode()), (b"content-type", media.encode())]
        headers.append((b"content-length", str(len(body)).encode()))
        scope = {"type": "http", "method": method, "path": raw, "raw_path": raw.encode(), "query_string": query.encode()}
        async with asyncio.timeout(30):
            await self.kit.server.app({**scope, "headers": headers, "state": {}}, receive, send)
        return Answer(code, b"".join(found))

    def sound(self, path: str, made: Json) -> None:
        """What was accepted is there, can be changed, and can be taken away."""
        one = f"{path}/{made['metadata']['name']}"
        assert self.ask("GET", one).json == made
        touch = {"metadata": {"annotations": {"touched": "yes"}, "finalizers": None}}
        changed = self.ask("PATCH", one, json.dumps(touch).encode(), "application/merge-patch+json")
        assert changed.code == 200, changed.body
        assert changed.json["metadata"]["annotations"]["touched"] == "yes"
        gone = self.ask("DELETE", f"{one}?gracePeriodSeconds=0")
        assert gone.code == 200, gone.body
        assert self.ask("GET", one).code == 404

    def settle(self) -> None:
        """Controllers have done what there was to do."""
        self._loop.run_until_complete(quiet(self.kit.server))


class _Errors(logging.Handler):
    """Whatever the server logs as an error is one: requests never cause any."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.found = found

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    stack = AsyncExitStack()
    handler: logging.Handler | None = None
    found: Server | None = None
    try:
        kit = loop.run_until_complete(stack.enter_async_context(running_kit(folder)))
        found = Server(kit, loop)
        handler = _Errors(found.errors)
        logging.getLogger("ullage").addHandler(handler)
        assert found.ask("POST", DEFINITIONS, json.dumps(VESSELS).encode()).code == 201
        found.settle()
        yield found
    finally:
        if handler is not None:
            logging.getLogger("ullage").removeHandler(handler)
        loop.run_until_complete(stack.aclose())
        loop.close()
        gc.unfreeze()
        if found is not None:
            print(f"the slowest request took {found.slowest:.3f} s of processor time")


def for_a_while(strategy: st.SearchStrategy[T], check: Callable[[T], object]) -> None:
    """Tries examples until the time is up. A failure is shrunk, and told with what replays it."""
    end = time.monotonic() + SECONDS
    tried = 0

    def counted(example: T) -> None:
        nonlocal tried
        tried += 1
        check(example)

    often = settings(max_examples=100, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
    while time.monotonic() < end:
        # As the server's process does at its start: otherwise a request is charged with a look through all that other tests
        # and Hypothesis itself have left in this process, which has taken half a second.
        gc.collect()
        gc.freeze()
        often(given(strategy)(counted))()
    print(f"{tried} examples")
