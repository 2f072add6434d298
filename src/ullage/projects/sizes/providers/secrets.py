"""The credentials that providers are asked with: read for each call and kept nowhere, so that a new one is used at once.

Whoever calls has made sure that a Cluster of this seed names the Secret as its credential.
"""

from __future__ import annotations

import binascii

from ullage.kube.builtin.core import SECRETS, Secret
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Forbidden
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered


async def read_credentials(client: Finder, reference: str) -> Credentials:
    """`reference` is `namespace/name`. Raises NotAnswered."""
    namespace, _, name = reference.partition("/")
    try:
        found: Secret | None = await client.find(SECRETS, name, namespace)
    except Forbidden as error:  # the server's own text has our account in it: it is for the log
        raise NotAnswered(f"Secret {reference} may not be read by Ullage") from error
    if found is None:
        raise NotAnswered(f"Secret {reference} does not exist")
    return Credentials(reference, _decoded(found))


def _decoded(secret: Secret) -> dict[str, str]:
    values: dict[str, str] = {}
    for key in secret.data:
        try:
            values[key] = secret.value(key).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue  # a key that is no text is none that a provider is asked with
    return values
