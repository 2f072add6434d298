"""`python -m bench.smoke`: goes through every benchmark with `--smoke`, to show that each still runs. CI calls it.

Three run at a time, since they mostly wait. A benchmark that fails shows all that it printed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

AT_A_TIME: Final = 3
SECONDS: Final = 300.0  # until a benchmark counts as stuck
HERE: Final = Path(__file__).parent


def benchmarks() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/__main__.py"))


def run(name: str) -> bool:
    """Whether the benchmark went through. Prints one line for it, what it skipped, and after a failure everything."""
    begun = time.monotonic()
    command = [sys.executable, "-m", f"bench.{name}", "--smoke"]
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False
        )
        failed, printed = done.returncode != 0, done.stdout
    except subprocess.TimeoutExpired as stuck:
        failed, printed = True, stuck.stdout or b""
    text = printed.decode(errors="replace")
    shown = text.splitlines() if failed else [line for line in text.splitlines() if line.strip().startswith("skipped")]
    verdict = "FAILED" if failed else "went through"
    first = f"bench.{name} {verdict} after {time.monotonic() - begun:.0f} s"
    print("\n".join([first, *(f"  {line.strip()}" for line in shown)]), flush=True)
    return not failed


def main() -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        sys.exit(not all(list(pool.map(run, benchmarks()))))


if __name__ == "__main__":
    main()
