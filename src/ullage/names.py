"""What names in Kubernetes look like (RFC 1123 and RFC 1035), and the sentences in which kube-apiserver says so. Pure."""

from __future__ import annotations

import re
from typing import Final

LABEL_LIMIT: Final = 63  # the longest name of a namespace or Service, and the longest value of a label
SUBDOMAIN_LIMIT: Final = 253  # the longest name that most kinds may have

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Labels with single dots between them; without a group that repeats, which takes memory for each time that it does.
SUBDOMAIN: Final = re.compile(r"(?!.*(?:[-.]\.|\.-))[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")

# The same for the schemas of our kinds: Go's regular expressions look neither ahead nor behind.
LABEL_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_VALUE_PATTERN: Final = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

LABEL_SENTENCE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_SENTENCE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_SENTENCE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def or_empty(pattern: str) -> str:
    """The pattern of a name that may be left empty."""
    return f"^({pattern[1:-1]})?$"


def is_label(text: str) -> bool:
    """`a-b`: what a namespace may be called."""
    return len(text) <= LABEL_LIMIT and LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """`a.b-c`: what objects of most kinds may be called."""
    return len(text) <= SUBDOMAIN_LIMIT and SUBDOMAIN.fullmatch(text) is not None
