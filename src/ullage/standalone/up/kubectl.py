"""Finds a kubectl that is really there, so that the command we print can be pasted and works.

The user's own comes first; a file called kubectl that does not answer (a wrapper without its target, a wrong architecture)
counts as none. Then the one that came with this Python environment.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TIMEOUT = 5.0


async def find(candidates: Sequence[str] | None = None) -> str | None:
    """`kubectl` where the user's PATH has a good one, else the full path of ours, else None."""
    for candidate in candidates or ("kubectl", str(Path(sys.executable).parent / "kubectl")):
        if await _answers(candidate):
            return candidate
    return None


async def _answers(candidate: str) -> bool:
    if shutil.which(candidate) is None:
        return False
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            candidate, "version", "--client", stdin=quiet, stdout=quiet, stderr=quiet
        )
    except OSError:
        return False
    try:
        return await asyncio.wait_for(process.wait(), TIMEOUT) == 0
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
