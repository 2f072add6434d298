"""What API types say about themselves: docstrings, and the strings that stand under attributes.

`kubectl explain` shows these to people, so they are written where the field is, in Python's usual places.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache


def prose(text: str | None) -> str:
    """A doc text without the line breaks of the source; paragraphs and list items stay on lines of their own."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text or ""))
    joined = (re.sub(r"\s*\n(?!\s*[-*] )\s*", " ", paragraph.strip()) for paragraph in paragraphs)
    return "\n\n".join(joined).strip()


@lru_cache(maxsize=256)
def attribute_docs(cls: type) -> Mapping[str, str]:
    """The docs under a class' attributes, with those of its bases; none where there is no source to read."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for one, after in _pairs(base):
            if (
                isinstance(one, ast.AnnAssign)
                and isinstance(one.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[one.target.id] = prose(after.value.value)
    return found


def _pairs(cls: type) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Each statement of a class' body with the one after it."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # built in, made at run time, or typed at a prompt
        return
    if isinstance(body, ast.ClassDef):
        yield from zip(body.body, body.body[1:], strict=False)
