"""What an engine's words mean to whoever called it. The words are those of a real longhorn-engine."""

from __future__ import annotations

import grpc
import pytest

from ullage.engines.client.errors import Reason, translated
from ullage.errors import Impossible, NotNow, UllageError, Uncertain

NESTED = "tcp://10.0.0.1:9502: failed to snapshot replica 10.0.0.1:9502 from remote: rpc error: code = Unknown desc = "
WORDS: dict[str, tuple[type[UllageError], Reason]] = {
    f"{NESTED}snapshot volume-snap-a.img is already existing": (Impossible, Reason.EXISTS),
    "snapshot count usage 2 is equal or larger than snapshotMaxCount 2": (NotNow, Reason.COUNT_LIMIT),
    f"{NESTED}too many active disks: 3": (NotNow, Reason.COUNT_LIMIT),
    "snapshot count total is already too big: 250": (NotNow, Reason.COUNT_LIMIT),
    "snapshot free space 8192 is not enough for head file 1048576": (NotNow, Reason.SIZE_LIMIT),
    "cannot set snapshotMaxCount=0 smaller than current snapshot count usage=1, please purge snapshots first": (
        NotNow,
        Reason.BELOW_USAGE,
    ),
    "cannot set snapshotMaxSize=0 smaller than current snapshot size usage=4096, please purge snapshots first": (
        NotNow,
        Reason.BELOW_USAGE,
    ),
    "cannot revert to removed snapshot a": (Impossible, Reason.REMOVED),
    "cannot do revert since the target snapshot a is not found": (Impossible, Reason.NO_SNAPSHOT),
    "cannot find snapshot a in the source replica tcp://10.0.0.1:9502": (Impossible, Reason.NO_SNAPSHOT),
    "cannot mark the active differencing disk as removed": (Impossible, Reason.HEAD),
    "volume frontend enabled, aborting snapshot revert": (NotNow, Reason.FRONTEND_UP),
    "frontend rest is already started, cannot be set as socket": (Impossible, Reason.FRONTEND),
    "failed to find frontend: zzz": (Impossible, Reason.FRONTEND),
    "replica is already purging snapshots": (NotNow, Reason.PURGING),
    "cannot revert tcp://10.0.0.1:9502 during rebuilding process": (NotNow, Reason.REBUILDING),
    "not valid state to revert, rebuilding in process or all replica are in ERR state": (NotNow, Reason.REBUILDING),
    "replica is cloning snapshot a from replica address tcp://10.0.0.1:9502": (NotNow, Reason.CLONING),
    "controller expansion is in progress": (NotNow, Reason.EXPANDING),
    "controller cannot be expanded to a smaller size 4096": (Impossible, Reason.SIZE),
    "requested expansion size 1 not multiple of volume sector size 4096": (Impossible, Reason.SIZE),
    "open /data/x: no space left on device": (NotNow, Reason.FULL),
    "something that nobody has seen yet": (Uncertain, Reason.UNKNOWN),
}
CODES: dict[str, tuple[type[UllageError], Reason]] = {
    code.name: (Uncertain, Reason.UNKNOWN) for code in grpc.StatusCode if code is not grpc.StatusCode.OK
} | {
    "UNIMPLEMENTED": (Impossible, Reason.UNSUPPORTED),
    "NOT_FOUND": (Impossible, Reason.NO_VOLUME),
    "INVALID_ARGUMENT": (Impossible, Reason.BAD_REQUEST),
    "OUT_OF_RANGE": (Impossible, Reason.BAD_REQUEST),
    "DATA_LOSS": (Impossible, Reason.DAMAGED),
}


@pytest.mark.parametrize(("words", "meaning"), WORDS.items())
def test_words_tell_what_happened(words: str, meaning: tuple[type[UllageError], Reason]) -> None:
    error = translated("UNKNOWN", words, what="volume v: VolumeSnapshot a")
    assert (type(error), getattr(error, "reason", None)) == meaning
    assert str(error) == f"volume v: VolumeSnapshot a: {words}"


@pytest.mark.parametrize(("code", "meaning"), CODES.items())
def test_a_code_tells_where_words_do_not(code: str, meaning: tuple[type[UllageError], Reason]) -> None:
    error = translated(code, "", what="volume v: VolumeGet")
    assert (type(error), getattr(error, "reason", None)) == meaning
    assert str(error) == f"volume v: VolumeGet: {code}"


@pytest.mark.parametrize("code", ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE"])
def test_words_about_a_call_that_got_no_answer_say_nothing(code: str) -> None:
    assert isinstance(translated(code, "snapshot volume-snap-a.img is already existing", what="v"), Uncertain)


def test_another_volumes_engine_is_asked_again_later() -> None:
    error = translated("FAILED_PRECONDITION", "incorrect volume name v; check controller address", what="v")
    assert isinstance(error, NotNow)
    assert error.reason is Reason.ELSEWHERE


def test_an_engines_endless_words_are_cut() -> None:
    assert len(str(translated("UNKNOWN", "x" * 10_000, what="v"))) < 1100
