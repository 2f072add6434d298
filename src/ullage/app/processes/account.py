"""The identity under which a process of ours works.

Our webhook tells what Ullage writes by the user's name, and undoes what others write on stamps. A process that runs with
another identity, such as an administrator's kubeconfig, therefore acts as its service account. The API server checks that it
may, and grants it the rights of that account. The administrator's own requests stay an administrator's: if the webhook trusted
that name instead, nothing would count what an administrator creates by hand.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

import msgspec

from ullage.errors import Retryable
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import SERVICE_ACCOUNTS
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config, Impersonation
from ullage.kube.errors import BadRequest, Forbidden, NotFound
from ullage.kube.identities import NAMESPACE, account
from ullage.kube.kinds import Value, decode_as_go
from ullage.kube.review import UserInfo

logger = logging.getLogger(__name__)

SELF_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_BODY: Final = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
_RETRY: Final = Backoff(first=0.5, cap=5.0)


class SelfReviewStatus(Value):
    user_info: UserInfo = UserInfo()


class SelfReview(Value):
    status: SelfReviewStatus = SelfReviewStatus()


async def config_of(client: Client, name: str) -> Config:
    """Returns the configuration with which this process acts as the service account of that name, where it may. Waits until the
    API server answers."""
    failures = 0
    while True:
        try:
            return await _choose(client, name)
        except Retryable as error:
            failures += 1
            logger.warning("cannot ask the API server who this process is", extra={"error": str(error)})
            await asyncio.sleep(_RETRY.delay(failures))


async def _choose(client: Client, name: str) -> Config:
    wanted = account(name)
    user = await user_of(client)
    if user in ("", wanted):
        return client.config
    known = {"user": user, "service_account": wanted}
    if client.config.acting_as is None and await _may_exist(client, name):
        config = replace(client.config, acting_as=Impersonation(wanted))
        async with client.beside(config) as other:
            if await user_of(other) == wanted:
                logger.info("acting as the service account, with its rights and no others", extra=known)
                return config
    logger.warning(
        "this identity is not trusted by Ullage's webhook, which undoes what it writes on snapshots: where the webhook runs, "
        "each deletion of a snapshot takes 60 s longer. Run as the service account: `kubectl create token` makes a token of "
        "it. Or run `ullage install`, and let this identity impersonate the service account",
        extra=known,
    )
    return client.config


async def user_of(client: Client) -> str:
    """Returns the name by which the API server knows this client. Empty: it does not tell (Kubernetes does since 1.28), or does
    not let the client act as the user whom its configuration names."""
    try:
        answer = await client.request("POST", SELF_REVIEWS, body=_BODY)
    except (BadRequest, Forbidden, NotFound):
        return ""
    return decode_as_go(msgspec.Raw(answer), msgspec.json.Decoder(SelfReview)).status.user_info.username


async def _may_exist(client: Client, name: str) -> bool:
    """Whether there is such an account, as far as this client may look."""
    try:
        return await client.find(SERVICE_ACCOUNTS, name, NAMESPACE) is not None
    except Forbidden:
        return True
