"""YAML scalars as kube-apiserver reads them: YAML 1.1 with Go's numbers, and keys that become strings.

A date stays text, `yes` is true, `010` is eight, `1e400` is text because no float holds it. What JSON cannot say (infinity, a
null as a key) is refused by whoever puts the document together.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import Any, Final

import msgspec

from ullage.standalone.apiserver.codec.json import BadBody

TAG: Final = "tag:yaml.org,2002:"
Scalar = str | int | float | bool | None

MERGE: Final = "<<"
_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_NUMBERS: Final = frozenset("+-.0123456789")
_LONGEST: Final = 400  # characters of a number: no 64 bits need more, and Python's int() is quadratic


def resolve(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """The value of a scalar. Raises BadBody where a tag asks for what the text is not."""
    if not tag or tag == "!":
        return _untagged(text) if plain and not tag else text
    if tag == f"{TAG}binary":
        return _binary(text)
    kind = tag.removeprefix(TAG)
    if kind == "str" or kind not in ("bool", "int", "float", "null", "timestamp"):
        return text
    found = _untagged(text)
    actual = "timestamp" if isinstance(found, str) and _DATE.fullmatch(found) else _kind(found)
    if actual == kind:
        return found
    if (actual, kind) == ("int", "float") and isinstance(found, int):
        return float(found)
    raise BadBody(f"yaml: cannot decode !!{actual} `{text}` as a !!{kind}")


def _untagged(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBERS or len(text) > _LONGEST:
        return text
    digits = text.replace("_", "")
    if found := _INTEGER.fullmatch(digits):
        number = _integer(found)
        if -(2**63) <= number < 2**63 or (not found[1] and number < 2**64):
            return number
    if _FLOAT.fullmatch(text if text[0] == "." else digits):
        value = float(digits)
        return text if math.isinf(value) else value
    return text


def _integer(found: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = found.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8) if octal else int(decimal)
    return -value if sign == "-" else value


def _kind(value: Scalar) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "str"
    return "int" if isinstance(value, int) else "float"


def _binary(text: str) -> str:
    """What was encoded, as text: JSON knows no bytes, and what is not UTF-8 is lost."""
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise BadBody("yaml: !!binary value contains invalid base64 data") from None


def json_number(value: float) -> int | float:
    """A float as it comes back from JSON: Go writes whole ones without a point."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def key_text(key: Scalar) -> str | None:
    """A key as JSON needs it; None for keys that have no such form."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key) if key < 2**63 else None
    return None if key is None else _float_key(key)


def _float_key(key: float) -> str:
    """Go writes such a key with the digits of a 32-bit float."""
    try:
        single: float = struct.unpack("f", struct.pack("f", key))[0]
    except OverflowError:
        single = math.copysign(math.inf, key)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    shown = next(text for digits in range(9) if _same_single(text := f"{single:.{digits}e}", single))
    digits, _, power = shown.lstrip("-").partition("e")
    decimals = max(0, len(digits) - 2) - int(power)
    return f"{float(shown):.{max(0, decimals)}f}" if -4 <= int(power) < 6 else shown


def _same_single(text: str, single: float) -> bool:
    return bool(struct.unpack("f", struct.pack("f", float(text)))[0] == single)


def go_syntax(value: Any, *, top: bool = True) -> str:
    """A value as Go's %#v prints it: keys that cannot be are shown so."""
    if value is None:
        return "<nil>" if top else "interface {}(nil)"
    if isinstance(value, dict):
        inner = ", ".join(f"{go_syntax(key, top=False)}:{go_syntax(item, top=False)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(go_syntax(item, top=False) for item in value)}}}"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(json_number(value)) if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    return str(value) if value < 2**63 else hex(value)
