"""What an operator under measurement says on its standard output: one line of JSON for each moment that matters."""

from __future__ import annotations

import json
import os
import time

from bench.apiserver.memory import resident_megabytes

STARTED = "BENCH_STARTED"  # when the process was started, on the clock that all processes of a machine share
OBJECTS = "BENCH_OBJECTS"
NAMESPACE = "BENCH_NAMESPACE"
TOUCHED = 1_000_000  # sizes from here on are the measured changes: the status is to repeat them


def say(moment: str) -> None:
    seconds = time.monotonic() - float(os.environ[STARTED])
    print(json.dumps({"moment": moment, "seconds": seconds, "megabytes": resident_megabytes([os.getpid()])}), flush=True)
