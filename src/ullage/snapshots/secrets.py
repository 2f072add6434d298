"""The values of Secrets, for calls to a storage system. They are in no text that is made here."""

from __future__ import annotations

import binascii

from ullage.errors import Retryable, Terminal
from ullage.kube.builtin.core import SECRETS, Secret
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Forbidden
from ullage.snapshots.backends.base import NO_SECRETS, Secrets
from ullage.snapshots.model import Ref


class SecretMissing(Retryable):
    """Nobody watches Secrets: it is looked for again."""


async def find_secrets(api: Finder, ref: Ref | None) -> Secrets | None:
    """What is in a Secret now; None where it does not exist. Read for each call and kept nowhere, so that a new password is
    used at once."""
    if ref is None:
        return NO_SECRETS
    try:
        found = await api.find(SECRETS, ref.name, ref.namespace)
    except Forbidden as error:  # the server's own text has our account in it: it is for the log
        raise SecretMissing(
            f"Secret {ref.namespace}/{ref.name} may not be read; `ullage install` gives the right to those that classes name"
        ) from error
    return decoded(found) if found is not None else None


async def read_secrets(api: Finder, ref: Ref | None) -> Secrets:
    """What is in a Secret that has to be there."""
    found = await find_secrets(api, ref)
    if ref is not None and found is None:
        raise SecretMissing(f"Secret {ref.namespace}/{ref.name} does not exist")
    return found or NO_SECRETS


def decoded(secret: Secret) -> Secrets:
    """What is in a Secret. Drivers take text."""
    values: dict[str, str] = {}
    for key in secret.data:
        try:
            values[key] = secret.value(key).decode()
        except (binascii.Error, UnicodeDecodeError):
            # Not chained: these errors quote what they could not read.
            raise Terminal(
                f"Secret {secret.metadata.namespace}/{secret.metadata.name}: the value of {key} is no text in UTF-8"
            ) from None
    return Secrets(values)
