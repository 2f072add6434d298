"""Faults that a test switches on while the driver runs, and the record of every call.

The control file is JSON, replaced as a whole (`os.replace`) and looked at before each call:

    {"upload_seconds": 2,
     "faults": [{"method": "CreateSnapshot", "do": "hang", "when": "after", "times": 1, "match": "snapshot-7"}]}

`do` is a gRPC code to answer with, `hang` (no answer, ever), `crash` (kill -9 by its own hand) or `wait` (`seconds`, then go
on). `after` means that the call has had its effect, or has given the first of many answers. `times` counts from when the file
was written, or the driver started; without it the fault stays. `match` is a part of the name or id that the call is about.
`message` is what a code comes with; `{password}` in it quotes a secret of the request, as careless drivers do.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, cast

import grpc
import grpc.aio
import msgspec


class Fault(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    method: str
    do: str
    when: Literal["before", "after"] = "before"
    times: int | None = None
    match: str = ""
    seconds: float = 0.0
    message: str = "on purpose"


class Control(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    upload_seconds: float = 0.0
    faults: list[Fault] = []


class Call(msgspec.Struct):
    """A line of the record. `outcome` is the code that was answered with, `HANG` or `CRASH`."""

    method: str
    about: str
    outcome: str
    secrets: list[str] = []  # only which ones came


class Refusal(Exception):
    """An answer that is not success."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Faults:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seen: tuple[int, ...] = ()
        self._control = Control()

    @property
    def control(self) -> Control:
        if self._file is None:
            return self._control
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._seen, self._control = (), Control()
            return self._control
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._seen, self._control = seen, msgspec.json.decode(self._file.read_bytes(), type=Control)
        return self._control

    def take(self, method: str, when: str, about: str) -> Fault | None:
        """The first fault that is for this call, used up by one."""
        for fault in self.control.faults:
            if (fault.method, fault.when) == (method, when) and fault.match in about and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


class Interceptor(grpc.aio.ServerInterceptor):
    """Around every call: faults before it and after it, refusals, the record."""

    def __init__(self, faults: Faults, record: Path) -> None:
        self._faults = faults
        self._record = record

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is not None and handler.unary_stream is not None:
            return self._streaming(handler_call_details.method.rpartition("/")[2], handler)
        if handler is None or handler.unary_unary is None:
            return handler
        method, inner = handler_call_details.method.rpartition("/")[2], handler.unary_unary

        async def outer(request: Any, context: Any) -> Any:
            about = about_of(request)
            outcome = "CANCELLED"
            try:
                await self._act(method, "before", request)
                answer = await to_the_end(inner(request, context))
                await self._act(method, "after", request)
                outcome = "OK"
            except Refusal as refusal:
                outcome = refusal.code.name
                await context.abort(refusal.code, refusal.message)
            finally:
                self._note(method, about, outcome, request)
            return answer

        return grpc.unary_unary_rpc_method_handler(
            outer, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )

    def _streaming(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """Calls with many answers. What is to happen after a call happens after its first answer."""

        async def outer(request: Any, context: Any) -> AsyncIterator[Any]:
            outcome, answered = "CANCELLED", False
            try:
                await self._act(method, "before", request)
                async for answer in cast(Callable[..., AsyncIterator[Any]], handler.unary_stream)(request, context):
                    yield answer
                    if not answered:
                        await self._act(method, "after", request)
                    answered = True
                outcome = "OK"
            except Refusal as refusal:
                outcome = refusal.code.name
                await context.abort(refusal.code, refusal.message)
            finally:
                self._note(method, about_of(request), outcome, request)

        return grpc.unary_stream_rpc_method_handler(
            outer, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )

    async def _act(self, method: str, when: str, request: Any) -> None:
        about = about_of(request)
        fault = self._faults.take(method, when, about)
        if fault is None:
            return
        match fault.do:
            case "wait":
                await asyncio.sleep(fault.seconds)
            case "hang":
                self._note(method, about, "HANG", request)
                await asyncio.Event().wait()
            case "crash":
                self._note(method, about, "CRASH", request)
                os.kill(os.getpid(), signal.SIGKILL)
            case code:
                raise Refusal(grpc.StatusCode[code], fault.message.format_map(dict(getattr(request, "secrets", {}))))

    def _note(self, method: str, about: str, outcome: str, request: Any) -> None:
        line = msgspec.json.encode(Call(method, about, outcome, sorted(getattr(request, "secrets", {}))))
        with self._record.open("ab") as file:
            file.write(line + b"\n")


async def to_the_end(work: Coroutine[Any, Any, Any]) -> Any:
    """A storage system does not stop because the caller has hung up; what is under way stays so until it is done."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def about_of(request: Any) -> str:
    """The name or id that a request is about."""
    for field in ("name", "snapshot_id", "volume_id", "source_volume_id", "group_snapshot_id"):
        if value := getattr(request, field, ""):
            return str(value)
    return ""
