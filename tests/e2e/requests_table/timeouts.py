"""How long a client is ready to wait, as it says in `?timeout=`: what can be read, and what cannot."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from ..kinds import configmap
from .case import CONFIGMAPS, Case, Check

BAD = "invalid timeout specified in the request URL - time: "
LISTED = {"kind": "ConfigMapList"}

CASES = (
    Case("a timeout that is long enough changes nothing", "GET", f"{CONFIGMAPS}?timeout=20s", has=LISTED),
    Case("a timeout may have several units", "GET", f"{CONFIGMAPS}?timeout=1h2m3s4ms", has=LISTED),
    Case("a timeout may have a fraction and a sign", "GET", f"{CONFIGMAPS}?timeout=%2B.5m", has=LISTED),
    Case("a timeout longer than the server's is the server's", "GET", f"{CONFIGMAPS}?timeout=100h", has=LISTED),
    Case("a timeout of nothing is none", "GET", f"{CONFIGMAPS}?timeout=0", has=LISTED),
    Case("a timeout below nothing is none", "GET", f"{CONFIGMAPS}?timeout=-1s", has=LISTED),
    Case("an empty timeout is none", "GET", f"{CONFIGMAPS}?timeout=", has=LISTED),
    Case("the first of two timeouts counts", "GET", f"{CONFIGMAPS}?timeout=20s&timeout=soon", has=LISTED),
    Case("a timeout that is no duration", "GET", f"{CONFIGMAPS}?timeout=soon", expect=(400, "BadRequest"), message=f'{BAD}invalid duration "soon"'),
    Case("a timeout without a unit", "GET", f"{CONFIGMAPS}?timeout=5", expect=(400, "BadRequest"), message=f'{BAD}missing unit in duration "5"'),
    Case("a timeout in days", "GET", f"{CONFIGMAPS}?timeout=1d", expect=(400, "BadRequest"), message=f'{BAD}unknown unit "d" in duration "1d"'),
    Case("a timeout that no number holds", "GET", f"{CONFIGMAPS}?timeout=99999999999h", expect=(400, "BadRequest"), message=f'{BAD}invalid duration "99999999999h"'),
    Case("a timeout with a blank", "GET", f"{CONFIGMAPS}?timeout=%201s", expect=(400, "BadRequest"), message=f'{BAD}invalid duration " 1s"'),
    Case("a timeout with what has to be escaped", "GET", f"{CONFIGMAPS}?timeout=%22%C3%A9%5C", expect=(400, "BadRequest"), message=f'{BAD}invalid duration "\\"\\xc3\\xa9\\\\"'),
    Case("a bad timeout of a write writes nothing", "POST", f"{CONFIGMAPS}?timeout=soon", configmap("a"), expect=(400, "BadRequest"), then=(Check(f"{CONFIGMAPS}/a", code=404),)),
    Case("a bad timeout is told before who asks is asked", "GET", f"{CONFIGMAPS}?timeout=soon", token="", expect=(400, "BadRequest")),
    Case("a bad timeout of what is no object", "GET", "/version?timeout=soon", expect=(400, "BadRequest")),
    Case("a bad timeout where there is nothing", "GET", "/nothing?timeout=soon", expect=(400, "BadRequest")),
    Case("a watch has no such timeout", "GET", f"{CONFIGMAPS}?watch=1&timeoutSeconds=1&timeout=soon"),
)  # fmt: skip
