"""What quotas, their ledgers and their marks are called. Pure."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Meta
from ullage.names import LABEL_LIMIT, is_subdomain

PROJECT: Final = "project"  # the only kind of subject
SETTING: Final = "globalsettings"  # the one KubermaticSetting that counts

# The account of a project's ledger that machines are charged to, and what is charged.
ACCOUNT: Final = "machines"
CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "storage"
RESOURCES: Final = (CPU, MEMORY, STORAGE)

# Labels.
SUBJECT_NAME: Final = "subject-name"
SUBJECT_KIND: Final = "subject-kind"
DEFAULT: Final = "default"  # as the proposal has it
KKP_DEFAULT: Final = "kkp-default-resource-quota"  # as KKP has it
DEFAULT_MARKS: Final = (DEFAULT, KKP_DEFAULT)
PROJECT_ID: Final = "project-id"  # on a Cluster: whose it is

# Of our own.
FINALIZER: Final = "ullage.io/quota-copies"  # on the master's quota, while a seed may have a copy
MAX_CLUSTERS: Final = "ullage.io/max-clusters"  # annotation on a quota: how many clusters its project may have
ESCROW: Final = "ullage.io/escrow"  # annotation on the master's quota: what each seed may have of it
COPY_OF: Final = "ullage.io/copy-of"  # annotation on a seed's copy of a quota: the uid of the master's
CLUSTER_ESCROW: Final = "ullage.io/cluster-escrow"  # the same of the number of clusters
CLUSTER_UID: Final = "ullage.io/cluster-uid"  # annotation on a MachineRecord: whose it is, of several clusters of one name
DRAINING: Final = "ullage.io/draining"  # annotation on a Seed, "true": it is to leave, and gets no more than it uses
DRAINED: Final = "ullage.io/drained"  # annotation on a Seed, "true": it is gone for good, and what it does not use is free

_PREFIX: Final = f"{PROJECT}-"


def is_project_id(text: str) -> bool:
    """Whether a project can have this id: it is a name of an object, and the value of a label."""
    return len(text) <= LABEL_LIMIT and is_subdomain(text)


def bad_project_id(text: str) -> str:
    """What is said of a text that no project can have as its id."""
    shown = text if len(text) <= LABEL_LIMIT else f"{text[:LABEL_LIMIT]}…"
    return (
        f"{shown!r} is no id of a project: that has 1 to {LABEL_LIMIT} lower case letters, digits, dashes and dots, as in abc-1"
    )


def quota_name(project: str) -> str:
    """The quota of a project: `project-abc`. Its ledger has the same name."""
    return f"{_PREFIX}{project}"


def project_of(ledger: str) -> str:
    """The project whose ledger this is; empty: it is none of those."""
    return ledger.removeprefix(_PREFIX) if ledger.startswith(_PREFIX) else ""


def is_default(meta: Meta) -> bool:
    """Whether a quota follows the default of the setting. One that has only one of the two marks does not: whoever took the
    other one off (KKP's API does, when somebody sets other values) has made it his own."""
    return all(meta.labels.get(mark) == "true" for mark in DEFAULT_MARKS)


def half_marked(meta: Meta) -> str:
    """The one mark that a quota has of the two; empty: it has both, or none."""
    found = [mark for mark in DEFAULT_MARKS if meta.labels.get(mark) == "true"]
    return found[0] if len(found) == 1 else ""
