"""Messages that JSON does not show as objects of their fields: times, quantities, ports by number or name, JSON in JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ullage.standalone.apiserver.codec.json import BadBody, parse_json
from ullage.standalone.apiserver.codec.protobuf import wire
from ullage.standalone.apiserver.codec.protobuf.wire import Garbled, Message, Read

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = datetime.min.replace(tzinfo=UTC)  # what Go takes for the absence of a time

_TIMESTAMP = Message(
    "Timestamp",
    [(1, "Seconds", wire.number("s", wire.int64, keep=True)), (2, "Nanos", wire.number("n", wire.int32, keep=True))],
)
_QUANTITY = Message("Quantity", [(1, "String", wire.value("text", wire.text, keep=True))])
_INT_OR_STRING = Message(
    "IntOrString",
    [
        (1, "Type", wire.number("type", wire.int64, keep=True)),
        (2, "IntVal", wire.number("number", wire.int32, keep=True)),
        (3, "StrVal", wire.value("text", wire.text, keep=True)),
    ],
)


def base64_text(data: bytes, start: int, stop: int, depth: int) -> str:
    return base64.b64encode(data[start:stop]).decode()


def _raw(data: bytes, start: int, stop: int, depth: int) -> bytes:
    return data[start:stop]


_RAW = Message("RawExtension", [(1, "Raw", wire.value("raw", _raw, keep=True))])


def _moment(data: bytes, start: int, stop: int, depth: int) -> datetime | None:
    if start == stop:
        return None
    found = _TIMESTAMP.read(data, start, stop, depth)
    try:
        moment = _EPOCH + timedelta(seconds=found.get("s", 0), microseconds=found.get("n", 0) // 1000)
    except OverflowError:
        raise Garbled("Time.MarshalJSON: year outside of range [0,9999]") from None
    return None if moment == _NO_TIME else moment


def time(data: bytes, start: int, stop: int, depth: int) -> str | None:
    """RFC 3339 in whole seconds. No time at all is null."""
    moment = _moment(data, start, stop, depth)
    return None if moment is None else f"{moment.replace(microsecond=0, tzinfo=None).isoformat()}Z"


def micro_time(data: bytes, start: int, stop: int, depth: int) -> str | None:
    """RFC 3339 with six digits behind the seconds."""
    moment = _moment(data, start, stop, depth)
    return None if moment is None else f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def quantity(data: bytes, start: int, stop: int, depth: int) -> str:
    return str(_QUANTITY.read(data, start, stop, depth).get("text", "0"))


def int_or_string(data: bytes, start: int, stop: int, depth: int) -> int | str:
    found = _INT_OR_STRING.read(data, start, stop, depth)
    match found.get("type", 0):
        case 0:
            return int(found.get("number", 0))
        case 1:
            return str(found.get("text", ""))
    raise Garbled("impossible IntOrString.Type")


def json(data: bytes, start: int, stop: int, depth: int) -> Any:
    """A value that travels as the text of its JSON."""
    raw = _RAW.read(data, start, stop, depth).get("raw")
    if not raw:
        return None
    wire.count(raw.count(b",") + raw.count(b"[") + raw.count(b"{"))  # at least as many as it has
    try:
        return parse_json(raw)
    except BadBody as error:
        raise Garbled(f"json parse error: {error}") from None


def schema_or_array(schema: Callable[[], Message]) -> Read:
    """`items` of a schema: one schema for all, or a list of them."""
    choice = Message(
        "JSONSchemaPropsOrArray", [(1, "Schema", _one(schema)), (2, "JSONSchemas", wire.values("many", _any(schema)))]
    )

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        found = choice.read(data, start, stop, depth)
        return found.get("many") or found.get("one")

    return read


def schema_or_bool(schema: Callable[[], Message]) -> Read:
    """`additionalProperties` of a schema: whether they may be, or what they must look like."""
    allows = wire.number("allows", bool, keep=True)
    choice = Message("JSONSchemaPropsOrBool", [(1, "Allows", allows), (2, "Schema", _one(schema))])

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        found = choice.read(data, start, stop, depth)
        return found["one"] if "one" in found else found.get("allows", False)

    return read


def schema_or_strings(schema: Callable[[], Message]) -> Read:
    """`dependencies` of a schema: a schema, or the names of other properties."""
    names = wire.values("names", wire.text)
    choice = Message("JSONSchemaPropsOrStringArray", [(1, "Schema", _one(schema)), (2, "Property", names)])

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        found = choice.read(data, start, stop, depth)
        return found.get("names") or found.get("one")

    return read


def _one(schema: Callable[[], Message]) -> list[wire.Keyed]:
    return wire.part("one", schema)


def _any(schema: Callable[[], Message]) -> Read:
    return lambda data, start, stop, depth: schema().read(data, start, stop, depth)
