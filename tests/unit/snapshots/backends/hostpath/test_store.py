"""One caller at a time for each name, also from other processes; and what killed ones leave is cleared away."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ullage.clock import FakeClock
from ullage.errors import NotNow, Uncertain
from ullage.snapshots.backends.hostpath import store as store_module
from ullage.snapshots.backends.hostpath.store import DirectoryStore
from ullage.snapshots.backends.hostpath.threads import Stop, Stopped

HOLDER = """
import fcntl, os, sys
os.makedirs(sys.argv[1] + "/.locks", exist_ok=True)
file = os.open(sys.argv[1] + "/.locks/a", os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class HastyClock(FakeClock):
    """Every look at it is a second later: whoever waits gives up soon."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


@contextmanager
def held_elsewhere(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process has the lock of `a` until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryStore:
    monkeypatch.setattr(store_module, "_POLL", 0.001)
    return DirectoryStore(tmp_path, clock=HastyClock())


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_lock_is_had_alone_and_leaves_no_file(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    with store.locked(root, "a", stop=Stop()):
        with pytest.raises(Uncertain) as refused, store.locked(root, "a", stop=Stop()):
            pytest.fail("two have it")
        assert str(refused.value) == f"{tmp_path}/a: another call has been at work on it for 30 s; ask again"
        with store.locked(root, "b", stop=Stop()):
            assert sorted(os.listdir(tmp_path / ".locks")) == ["a", "b"]
    with store.locked(root, "a", stop=Stop()):
        pass
    assert os.listdir(tmp_path / ".locks") == []


def test_shared_locks_keep_out_only_who_wants_it_alone(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    with store.locked(root, "a", stop=Stop(), shared=True):
        with store.locked(root, "a", stop=Stop(), shared=True):
            pass
        assert os.listdir(tmp_path / ".locks") == ["a"], "the other one still has it"
        with pytest.raises(Uncertain), store.locked(root, "a", stop=Stop()):
            pytest.fail("somebody reads it")
    assert os.listdir(tmp_path / ".locks") == []


def test_another_process_keeps_it_until_it_is_killed(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        with pytest.raises(Uncertain), store.locked(root, "a", stop=Stop()):
            pytest.fail("another process has it")
        process.kill()
        process.wait()
        with store.locked(root, "a", stop=Stop()):
            pass
    assert os.listdir(tmp_path / ".locks") == []


def test_a_lock_that_was_taken_away_while_it_was_opened_is_not_had(
    store: DirectoryStore, root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    with ExitStack() as first:
        first.enter_context(store.locked(root, "a", stop=Stop()))

        def late(file: int, operation: int) -> None:
            monkeypatch.setattr(fcntl, "flock", flock)
            first.close()  # between the open and the lock of the one that comes next
            flock(file, operation)

        monkeypatch.setattr(fcntl, "flock", late)
        with store.locked(root, "a", stop=Stop()):
            assert os.listdir(tmp_path / ".locks") == ["a"], "others find what it holds"
            with pytest.raises(Uncertain), store.locked(root, "a", stop=Stop()):
                pytest.fail("two have it")


def test_who_waits_for_a_lock_can_be_called_off(store: DirectoryStore, root: int) -> None:
    stop = Stop()
    with store.locked(root, "a", stop=Stop()):
        stop.ask()
        with pytest.raises(Stopped), store.locked(root, "a", stop=stop):
            pytest.fail("two have it")


def test_many_threads_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock files come and go all the time here: nobody may hold one that others do not find."""
    monkeypatch.setattr(store_module, "_POLL", 0.0005)
    store = DirectoryStore(tmp_path, clock=FakeClock())
    inside: list[int] = []
    worst: list[int] = []

    def work(number: int) -> None:
        with store.opened() as root:
            for _ in range(30):
                with store.locked(root, "a", stop=Stop()):
                    inside.append(number)
                    worst.append(len(inside))
                    inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(worst) == 180
    assert max(worst) == 1
    assert os.listdir(tmp_path / ".locks") == []


def test_what_is_staged_is_whole_or_gone(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    with store.staged(root, "a", of="v") as staging:
        os.mkdir("data", dir_fd=staging)
        assert store.names() == []
        store.publish(root, "a")
    assert store.names() == ["a"]
    with pytest.raises(OSError), store.staged(root, "b", of="v"):
        raise OSError
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_called_off_goes_on_if_it_is_of_the_same(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    stop = Stop()
    stop.ask()

    def called_off(of: str) -> list[str]:
        """What was there when it was begun."""
        found: list[str] = []
        with suppress(Stopped), store.staged(root, "b", of=of) as staging:
            found = os.listdir(staging)
            os.mkdir(of, dir_fd=staging)
            stop.check()
        return found

    assert called_off("v") == []
    assert store.names() == []
    assert called_off("w") == [], "what was begun of v is gone"
    with store.staged(root, "b", of="w") as staging:
        assert os.listdir(staging) == ["w"]
        store.publish(root, "b")
    assert os.listdir(tmp_path) == ["b"]


def test_what_is_retired_is_not_whole_any_more_even_if_it_cannot_be_removed(
    store: DirectoryStore, root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "data").mkdir(parents=True)

    def fail(_parent: int, _name: str) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "remove_tree", fail)
        with pytest.raises(OSError):
            store.retire(root, "a")
    assert os.listdir(tmp_path) == [".deleting-a"]
    store.retire(root, "a")
    assert os.listdir(tmp_path) == []


def test_a_sweep_removes_what_nobody_works_on(store: DirectoryStore, root: int, tmp_path: Path) -> None:
    for name in (".staging-a/data", ".deleting-b/data", ".staging-c", "whole/data", ".something-else", ".staging-"):
        (tmp_path / name).mkdir(parents=True)
    with store.locked(root, "c", stop=Stop()):
        (tmp_path / ".locks" / "left").touch()
        store.sweep(root, stop=Stop())
        assert os.listdir(tmp_path / ".locks") == ["c"]
        assert sorted(os.listdir(tmp_path)) == [".locks", ".something-else", ".staging-", ".staging-c", "whole"]
    store.sweep(root, stop=Stop())
    assert not (tmp_path / ".staging-c").exists()


def test_a_root_that_is_not_there_may_be_later(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "missing", clock=FakeClock())
    with pytest.raises(NotNow, match="it has to be there, or its file system mounted"), store.opened():
        pytest.fail("it is not there")
