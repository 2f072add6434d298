"""Programs of others that Go builds once. Where that cannot be, the tests that need them are skipped, and say why."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tools.peers.go_programs import NoPrograms


def built(find: Callable[[Mapping[str, str]], Path]) -> Path:
    try:
        return find(os.environ)
    except NoPrograms as problem:
        pytest.skip(str(problem))
