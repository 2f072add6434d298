"""Runs `ullage up` over the stand-in server, as a process of its own that tests can signal and kill."""

from __future__ import annotations

import sys
from pathlib import Path

from ullage.standalone.up.run import run
from ullage.standalone.up.settings import Settings

if __name__ == "__main__":
    directory, behaviour = sys.argv[1:]
    settings = Settings(None if directory == "ephemeral" else Path(directory), 0)
    sys.exit(run(settings, server=(sys.executable, str(Path(__file__).with_name("fake_server.py")), behaviour)))
