"""Runs `ullage up` over the stand-in server, as a process of its own that tests can signal and kill. With two descriptors it
is one that another has started."""

from __future__ import annotations

import sys
from pathlib import Path

from ullage.standalone.up.run import Parent, run
from ullage.standalone.up.settings import Settings

if __name__ == "__main__":
    directory, behaviour, *descriptors = sys.argv[1:]
    parent = Parent(*map(int, descriptors)) if descriptors else None
    settings = Settings(None if directory == "ephemeral" else Path(directory), 0)
    server = (sys.executable, str(Path(__file__).with_name("fake_server.py")), behaviour)
    sys.exit(run(settings, server=server, parent=parent))
