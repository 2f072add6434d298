"""Alibaba: DescribeInstanceTypes of ECS in a region, signed with the access key (HMAC-SHA1 over the query, "RPC style")."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final
from urllib.parse import quote

from ullage.clock import Clock, SystemClock
from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, collect, text_inside
from ullage.projects.sizes.providers.web import web
from ullage.times import timestamp

ADDRESS: Final = "https://ecs.{region}.aliyuncs.com"
REGION: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PAGE: Final = "100"


class Alibaba:
    source = "DescribeInstanceTypes"

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        clock: Clock | None = None,
        nonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        """`{region}` in the address is replaced."""
        self._address = address
        self._clock = clock or SystemClock()
        self._nonce = nonce

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        if not REGION.fullmatch(place.region):
            raise NotAnswered("a region such as eu-central-1 is needed")
        return await collect("alibaba", self._pages(place.region, credentials))

    async def _pages(self, region: str, credentials: Credentials) -> AsyncGenerator[object, None]:
        more: dict[str, str] | None = {}
        async with web() as calls:
            while more is not None:
                query = {"MaxResults": _PAGE, **more}
                page = await calls.get_exactly(self.url("DescribeInstanceTypes", region, credentials, **query))
                yield page
                token = text_inside(page, "NextToken")
                more = {"NextToken": token} if token else None

    def url(self, action: str, region: str, credentials: Credentials, **more: str) -> str:
        """The address of a call, signed."""
        query = {
            "Action": action,
            "Version": "2014-05-26",
            "Format": "JSON",
            "AccessKeyId": credentials.needed("accessKeyId"),
            "SignatureMethod": "HMAC-SHA1",
            "SignatureVersion": "1.0",
            "SignatureNonce": self._nonce(),
            "Timestamp": timestamp(self._clock.now()),
            "RegionId": region,
            **more,
        }
        return f"{self._address.format(region=region)}/?{signed(query, credentials.needed('accessKeySecret'))}"


def signed(query: Mapping[str, str], secret: str) -> str:
    """The query as it is sent, with its signature."""
    ordered = "&".join(f"{_encoded(name)}={_encoded(query[name])}" for name in sorted(query))
    digest = hmac.new(f"{secret}&".encode(), f"GET&%2F&{_encoded(ordered)}".encode(), hashlib.sha1).digest()
    return f"{ordered}&Signature={_encoded(base64.b64encode(digest).decode())}"


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
