"""A kubectl that does not answer is no kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.standalone.up import kubectl

GOOD = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "kubectl"


@pytest.mark.parametrize(
    ("content", "mode", "found"),
    [
        pytest.param(GOOD, 0o755, True, id="one that answers is taken"),
        pytest.param("#!/bin/sh\nexit 3\n", 0o755, False, id="one that fails is not"),
        pytest.param("#!/nowhere/sh\n", 0o755, False, id="one whose interpreter is missing is not"),
        pytest.param("\x7fELF nonsense", 0o755, False, id="one for another machine is not"),
        pytest.param(GOOD, 0o644, False, id="one that cannot be run is not"),
        pytest.param(None, 0, False, id="one that is not there is not"),
    ],
)
async def test_which_kubectl_counts(program: Path, content: str | None, mode: int, found: bool) -> None:
    make(program, content, mode)
    assert await kubectl.find([str(program)]) == (str(program) if found else None)


async def test_one_that_hangs_is_left_behind(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "TIMEOUT", 0.1)
    make(program, "#!/bin/sh\nexec sleep 600\n", 0o755)
    assert await kubectl.find([str(program)]) is None


async def test_the_users_own_comes_first(tmp_path: Path) -> None:
    for name in ("theirs", "ours"):
        make(tmp_path / name, GOOD, 0o755)
    assert await kubectl.find([str(tmp_path / "theirs"), str(tmp_path / "ours")]) == str(tmp_path / "theirs")


def make(path: Path, content: str | None, mode: int) -> None:
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
