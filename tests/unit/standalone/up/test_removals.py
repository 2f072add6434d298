"""What is taken away underneath a running `ullage up` is told, once, and when it is back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ullage.standalone.up.removals import PROGRAM, Removals


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    program, data = tmp_path / "site-packages" / "ullage", tmp_path / "data"
    for directory, file in ((program, "__init__.py"), (data, "up.lock")):
        directory.mkdir(parents=True)
        (directory / file).touch()
    return program, data


def test_the_program_is_this_one() -> None:
    assert (PROGRAM.name, (PROGRAM / "standalone" / "up").is_dir()) == ("ullage", True)


def test_nothing_is_told_of_what_is_there(places: tuple[Path, Path]) -> None:
    assert Removals(places[1], program=places[0]).look() == []


def test_a_program_that_was_removed_is_told_once_and_when_it_is_back(places: tuple[Path, Path]) -> None:
    program, data = places
    removals = Removals(data, program=program)
    shutil.rmtree(program)
    told = f"the program of Ullage in {program} was removed: what runs goes on, and nothing can be started again"
    assert [removals.look(), removals.look()] == [[told], []]
    program.mkdir()
    (program / "__init__.py").touch()
    assert [removals.look(), removals.look()] == [[f"the program of Ullage in {program} is back"], []]


def test_a_data_directory_that_was_removed_is_told_and_another_of_its_name_is_not_it(places: tuple[Path, Path]) -> None:
    program, data = places
    removals = Removals(data, program=program)
    data.rename(data.with_name("elsewhere"))
    told = f"the data directory {data} was removed: what is written from now on is lost when this ends"
    assert removals.look() == [told]
    data.mkdir()
    (data / "up.lock").touch()
    assert removals.look() == []
    shutil.rmtree(data)
    data.with_name("elsewhere").rename(data)
    assert removals.look() == [f"the data directory {data} is back"]
