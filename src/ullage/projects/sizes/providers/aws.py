"""AWS: DescribeInstanceTypes of EC2 in a region, through boto3, which comes with `ullage[clouds]`.

boto3 blocks, so it runs in threads of its own; each call of it has an end. Errors have AWS' code, and not its message, which
may have parts of the request in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import EXTRA, MOST_PAGES, Credentials, NotAnswered, collect

R = TypeVar("R")
Call = Callable[[Any, dict[str, Any]], R]  # given a session, and how its clients are made

SECONDS: Final = 15  # of one call
_THREADS: Final = 4
_REGION: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


class Aws:
    source = "DescribeInstanceTypes"

    def __init__(self, address: str | None = None) -> None:
        """`address`: where everything is asked; None: what boto3 knows for the region."""
        self._address = address
        self._threads: ThreadPoolExecutor | None = None

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        if not _REGION.fullmatch(place.region):
            raise NotAnswered("a region such as eu-central-1 is needed")
        return await collect("aws", _each(await self.ask(place.region, credentials, self._flavours)))

    async def ask(self, region: str, credentials: Credentials, call: Call[R]) -> R:
        """What a call answers that is made in a thread, with a session in the region. Raises NotAnswered."""
        keys = (credentials.needed("accessKeyId"), credentials.needed("secretAccessKey"))
        role, external = credentials.get("assumeRoleARN"), credentials.get("assumeRoleExternalID")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="aws")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._asked, region, keys, (role, external), call)

    def _asked(self, region: str, keys: tuple[str, str], assumed: tuple[str, str], call: Call[R]) -> R:
        """In a thread."""
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise NotAnswered(f"boto3 is not installed: {EXTRA} brings what AWS is asked with") from error
        session = boto3.session.Session(aws_access_key_id=keys[0], aws_secret_access_key=keys[1], region_name=region)
        try:
            if assumed[0]:
                session = self._assumed(session, *assumed)
            return call(session, self._how())
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "an error")
            raise NotAnswered(f"ec2 in {region} answered {str(code)[:60]}") from None
        except BotoCoreError as error:
            raise NotAnswered(f"ec2 in {region} cannot be asked ({type(error).__name__})") from None

    def _flavours(self, session: Any, how: dict[str, Any]) -> list[Any]:
        """All pages."""
        return list(self._pages(session.client("ec2", **how)))

    def _pages(self, client: Any) -> Iterator[Any]:
        for number, page in enumerate(client.get_paginator("describe_instance_types").paginate()):
            if number == MOST_PAGES:
                raise NotAnswered(f"it has more than {MOST_PAGES} pages of flavours")
            yield page

    def _assumed(self, session: Any, role: str, external: str) -> Any:
        import boto3

        more = {"ExternalId": external} if external else {}
        answer = session.client("sts", **self._how()).assume_role(RoleArn=role, RoleSessionName="ullage", **more)
        given = answer["Credentials"]
        return boto3.session.Session(
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
            region_name=session.region_name,
        )

    def _how(self) -> dict[str, Any]:
        from botocore.config import Config

        retries = {"max_attempts": 2, "mode": "standard"}
        config = Config(connect_timeout=5, read_timeout=SECONDS, retries=retries, user_agent_extra="ullage")
        return {"config": config, "endpoint_url": self._address}


async def _each(pages: list[Any]) -> AsyncGenerator[object, None]:
    for page in pages:
        yield page
