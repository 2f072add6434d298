"""The `continue` token of a paged list."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from ullage.standalone.apiserver.codec.json import go_char
from ullage.standalone.apiserver.request.parameters import MAX_INT64
from ullage.standalone.apiserver.status import ApiError, bad_request
from ullage.standalone.apiserver.storage.entries import Key


@dataclass(frozen=True, slots=True)
class ContinueToken:
    """Where a paged list goes on: behind a key, at a revision (-1: whatever is current)."""

    rv: int
    start: Key

    def encode(self) -> str:
        body = {"v": "meta.k8s.io/v1", "rv": self.rv, "start": "/".join(self.start) + "\0"}
        return base64.urlsafe_b64encode(msgspec.json.encode(body)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> ContinueToken:
        """Raises a 400 that says what is wrong with it, as Go's decoders would."""
        bad = next((place for place, char in enumerate(text) if char not in _BASE64), None)
        if bad is None and len(text) % 4 == 1:
            bad = len(text) - 1
        if bad is not None:
            raise _bad_token(f"illegal base64 data at input byte {bad}")
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if raw[:1] != b"{":
            raise _bad_token(f"invalid character {go_char(raw[:1].decode('latin-1'))} looking for beginning of value")
        try:
            body = msgspec.json.decode(raw)
            version, rv, start = body["v"], body["rv"], str(body["start"])
            if not isinstance(rv, int) or abs(rv) > MAX_INT64:
                raise ValueError(rv)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
            raise _bad_token("json: cannot unmarshal the token") from None
        if version != "meta.k8s.io/v1":
            raise _bad_token(f"server does not recognize this encoded version {version}")
        if not rv:
            raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not start:
            raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
        if {".", ".."} & set(start.split("/")):
            raise _bad_token(start)
        namespace, _, name = start.removesuffix("\0").rpartition("/")
        return cls(rv, (namespace, name))


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _bad_token(detail: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {detail}")
