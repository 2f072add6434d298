"""Google: machineTypes.list of a zone, with a token that a statement signed by the service account's key is traded for.

Of the service account's file the project, the account and its key are used. The address in it is not: whoever wrote the file
could have the statement sent to himself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ullage.clock import Clock, SystemClock
from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, collect, text_inside
from ullage.projects.sizes.providers.web import Web, bearer, web

SCOPE: Final = "https://www.googleapis.com/auth/compute.readonly"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
AUDIENCE: Final = "https://oauth2.googleapis.com/token"
_VALID: Final = 600  # seconds: of the statement, not of the token


@dataclass(frozen=True, slots=True)
class GoogleAddresses:
    token: str = AUDIENCE
    compute: str = "https://compute.googleapis.com"


class ServiceAccountKey:
    """The key file of a service account, as it is or in base64. Raises NotAnswered, without a word of what is in it."""

    def __init__(self, text: str) -> None:
        document = _json(text)
        self.project = text_inside(document, "project_id")
        self.email = text_inside(document, "client_email")
        try:
            key = load_pem_private_key(text_inside(document, "private_key").encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise NotAnswered("serviceAccount has no private_key that can be read") from None
        if not self.project or not self.email or not isinstance(key, RSAPrivateKey):
            raise NotAnswered("serviceAccount is no key file: project_id, client_email and an RSA private_key are needed")
        self._key = key

    def statement(self, *, at: int) -> str:
        """A signed JWT that asks for a token."""
        claims = {"iss": self.email, "scope": SCOPE, "aud": AUDIENCE, "iat": at, "exp": at + _VALID}
        body = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part(claims)}"
        return f"{body}.{_base64(self._key.sign(body.encode(), PKCS1v15(), SHA256()))}"


class Google:
    source = "machineTypes.list"

    def __init__(self, addresses: GoogleAddresses | None = None, *, clock: Clock | None = None) -> None:
        self._addresses = addresses or GoogleAddresses()
        self._clock = clock or SystemClock()

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        if not place.region:
            raise NotAnswered("a zone is needed")
        return await collect("gce", self._pages(place.region, ServiceAccountKey(credentials.needed("serviceAccount"))))

    async def _pages(self, zone: str, key: ServiceAccountKey) -> AsyncGenerator[object, None]:
        path = f"compute/v1/projects/{quote(key.project, safe=':')}/zones/{quote(zone, safe='')}/machineTypes"
        query = {"maxResults": "500"}
        async with web() as calls:
            headers = bearer(await self.token(calls, key))
            while query:
                page = await calls.get(f"{self._addresses.compute}/{path}", headers=headers, query=query)
                yield page
                token = text_inside(page, "nextPageToken")
                query = {"maxResults": "500", "pageToken": token} if token else {}

    async def token(self, calls: Web, key: ServiceAccountKey) -> str:
        statement = key.statement(at=int(self._clock.now().timestamp()))
        answer = await calls.post(self._addresses.token, form={"grant_type": GRANT, "assertion": statement})
        token = text_inside(answer.body, "access_token")
        if not token:
            raise NotAnswered("its login answered without a token")
        return token


def _json(text: str) -> object:
    try:
        plain = text.encode() if text.lstrip().startswith("{") else base64.b64decode(text, validate=True)
        found: Any = msgspec.json.decode(plain)
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotAnswered("serviceAccount is neither JSON nor JSON in base64") from None
    return found


def _part(document: Mapping[str, object]) -> str:
    return _base64(msgspec.json.encode(document))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
