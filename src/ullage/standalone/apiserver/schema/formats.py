"""The string formats that the API server knows: one predicate each, as lenient and as strict as the server's own.

A format that is not in `STRINGS` (`semver`, `ip`, a misspelling) constrains nothing: the server ignores what it does not know.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from ullage.names import LABEL

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
FLOAT_MAX = 3.40282346638528859811704183484516925440e38

_UUID = r"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
_DATE_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_UNITS = r"(ns|us|µs|μs|ms|s|m|h|d|w)"
# A group that repeats is possessive: to be able to go back, `re` would keep 500 bytes for each time.
_GO_DURATION = re.compile(rf"[+-]?(0|((\d+(\.\d*)?|\.\d+)\s*{_UNITS}\s*)++)", re.ASCII)
_WORDY_DURATION = re.compile(
    r"\d+\s*(nanos?(econds?)?|micros?(econds?)?|millis?(econds?)?|sec(ond)?s?|min(ute)?s?|h(ou)?rs?|days?|weeks?|m)",
    re.ASCII | re.IGNORECASE,
)
_ISO_DURATION = re.compile(r"P(?=.)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.ASCII)
_CARD = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
)


def matcher(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def is_date(text: str) -> bool:
    if len(text) != 10:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and is_date(text[:10])


def is_byte(text: str) -> bool:
    """Standard base64 with padding; the empty string does not count."""
    try:
        return bool(base64.b64decode(text.encode("ascii"), validate=True))
    except (binascii.Error, UnicodeEncodeError):
        return False


def is_ipv4(text: str) -> bool:
    """Leading zeros are let through, and so is an IPv4 address written as a mapped IPv6 one."""
    try:
        if ":" in text:
            return ipaddress.IPv6Address(text).ipv4_mapped is not None
        return bool(ipaddress.IPv4Address(".".join(part.lstrip("0") or part[-1:] for part in text.split("."))))
    except ValueError:
        return False


def is_ipv6(text: str) -> bool:
    try:
        return "%" not in text and ":" in text and bool(ipaddress.IPv6Address(text)) | True
    except ValueError:
        return False


def is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdecimal()) or "%" in address:
        return False
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def is_uri(text: str) -> bool:
    """What Go's ParseRequestURI takes: an absolute address, or a rooted path."""
    if re.search(r"[\x00-\x20\x7f]", text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    if text.startswith("/"):
        return True
    try:
        return bool(urlsplit(text).scheme) and len(text) > len(urlsplit(text).scheme) + 1
    except ValueError:
        return False


def is_email(text: str) -> bool:
    address = re.fullmatch(r"[^<>]*<([^<>]+)>", text)
    return re.fullmatch(r"[^\s@<>()\[\]\\,;:\"]+@[^\s@<>()\\,;:\"]+", address[1] if address else text) is not None


def is_hostname(text: str) -> bool:
    if len(text) > 255:
        return False
    labels = text.split(".")
    if not all(re.fullmatch(r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?", label) for label in labels):
        return False
    return len(labels) == 1 or re.fullmatch(r"[a-zA-Z]{2,63}|xn--[a-z0-9]+", labels[-1]) is not None


def is_duration(text: str) -> bool:
    return any(form.fullmatch(text) for form in (_GO_DURATION, _WORDY_DURATION, _ISO_DURATION))


def is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def is_isbn10(text: str) -> bool:
    plain = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9X]", plain) is None:
        return False
    return sum((place + 1) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(plain)) % 11 == 0


def is_isbn13(text: str) -> bool:
    plain = re.sub(r"[\s-]+", "", text)
    return (
        re.fullmatch(r"[0-9]{13}", plain) is not None and sum(int(d) * (1 + 2 * (i % 2)) for i, d in enumerate(plain)) % 10 == 0
    )


_is_short_name = matcher(LABEL.pattern)
_is_long_name = matcher(rf"{LABEL.pattern}(\.{LABEL.pattern})*")
_color = r"(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"

STRINGS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": matcher(r"[0-9a-fA-F]{24}"),
    "byte": is_byte,
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "date-time": is_date_time,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": matcher(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8s-long-name": lambda text: len(text) <= 253 and _is_long_name(text),
    "k8s-short-name": lambda text: len(text) <= 63 and _is_short_name(text),
    "mac": matcher(
        r"([0-9a-f]{2}([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4}((\2[0-9a-f]{2}){2})?)|[0-9a-f]{4}(\.[0-9a-f]{4}){2,3}", re.IGNORECASE
    ),
    "rgbcolor": matcher(rf"rgb\(\s*{_color}\s*,\s*{_color}\s*,\s*{_color}\s*\)"),
    "ssn": matcher(r"\d{3}[- ]?\d{2}[- ]\d{4}", re.ASCII),
    "uri": is_uri,
    "uuid": matcher(_UUID.format(version="[0-9a-f]", variant="[0-9a-f]"), re.IGNORECASE),
    "uuid3": matcher(_UUID.format(version="3", variant="[0-9a-f]"), re.IGNORECASE),
    "uuid4": matcher(_UUID.format(version="4", variant="[89ab]"), re.IGNORECASE),
    "uuid5": matcher(_UUID.format(version="5", variant="[89ab]"), re.IGNORECASE),
}
