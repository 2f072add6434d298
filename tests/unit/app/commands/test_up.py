"""`ullage up` where the package was installed without the embedded API server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ullage
from ullage.app.commands.up import STANDALONE, NotStandalone, require_standalone

ROOT = Path(__file__).parents[4]
SOURCE = Path(ullage.__file__).parents[1]


def test_what_is_missing_is_named_with_what_brings_it() -> None:
    require_standalone(lambda module: module)
    with pytest.raises(NotStandalone) as caught:
        require_standalone(lambda module: None if module in ("re2", "jwt") else module)
    assert str(caught.value) == (
        "`ullage up` needs the embedded API server, and PyJWT and google-re2 are not installed: "
        "pip install 'ullage[standalone]' brings all that it needs"
    )


def test_all_that_the_extra_brings_is_looked_for() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["standalone"]
    assert {re.split(r"[><=]", one)[0] for one in extra} == set(STANDALONE.values())


def test_the_command_says_it_in_one_sentence_and_starts_nothing(tmp_path: Path) -> None:
    """With a Python that does not find one of them, as one without the extra."""
    program = (
        "import importlib.util as u; real = u.find_spec; "
        "u.find_spec = lambda name, package=None: None if name == 're2' else real(name, package); "
        "import sys; sys.argv = ['ullage', 'up', '--data-dir', sys.argv[1]]; from ullage.app import main; main()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ullage: `ullage up` needs the embedded API server, and google-re2 is not installed: "
        "pip install 'ullage[standalone]' brings all that it needs\n"
    )
    assert not (tmp_path / "data").exists()
