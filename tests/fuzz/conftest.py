"""One server for all targets of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness import Server, server


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("fuzz")) as found:
        yield found
