"""A kubeconfig that somebody else wrote: it says where a cluster is and who we are there, and nothing about our own machine.

A file may name others and programs to run, and is its owner's; a Secret is written by whoever may write it. So a kubeconfig
from a Secret holds everything that it needs itself, and whatever would read or run something here is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from ullage.kube.client.kubeconfig import BadConfig, Choice, merged, parse

LARGEST: Final = 256 * 1024  # bytes
DEEPEST: Final = 20  # a kubeconfig has about six levels

_FILES: Final = "it names a file of this machine; give its content in {data}"


def choose(text: bytes, where: str) -> Choice:
    """The current context. `where` names the Secret in errors; they never show what is in it."""
    path = Path(where)
    if len(text) > LARGEST:
        raise BadConfig("kubeconfig", where, f"it has {len(text)} bytes, and may have {LARGEST}")
    _refuse_tricks(text, where)
    choice = merged({path: parse(text, path)}).choose()
    cluster, user = choice.cluster, choice.user
    for entry, name, given, problem in (
        (cluster, "certificate-authority", cluster.value.ca_file, _FILES.format(data="certificate-authority-data")),
        (cluster, "insecure-skip-tls-verify", cluster.value.insecure, "whoever is in between could read our credentials"),
        (user, "tokenFile", user.value.token_file, _FILES.format(data="token")),
        (user, "client-certificate", user.value.certificate_file, _FILES.format(data="client-certificate-data")),
        (user, "client-key", user.value.key_file, _FILES.format(data="client-key-data")),
        (user, "exec", user.value.exec, "it names a program of this machine"),
        (user, "auth-provider", user.value.auth_provider, "it names a program of this machine"),
    ):
        if given:
            raise BadConfig(where, f"{entry.where}.{name}", f"not from a Secret: {problem}")
    if not cluster.value.server.startswith("https://"):
        raise cluster.bad("server", "not from a Secret: this must begin with https://")
    return choice


def _refuse_tricks(text: bytes, where: str) -> None:
    """What is small as a text and large once it is read: parts that stand for others, and lists within lists without end."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.AliasEvent):
                raise BadConfig("kubeconfig", where, "anchors and aliases have no place in it")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise BadConfig("kubeconfig", where, "it is nested too deeply")
    except yaml.YAMLError:
        return  # whoever reads it says where
