"""What a hook is written with: declarations that cannot be wrong by accident, and patches that lose nothing."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.admission.builders import review
from ullage.kube.kinds import Kind, Meta, Object, Value
from ullage.kube.overlay import difference, overlay
from ullage.kube.review import Decision, Hook, Review, Target, Unreadable


class Disk(Value):
    name: str
    size: str = ""


class Spec(Value):
    disks: tuple[Disk, ...] = ()
    cores: int = 0


class Machine(Object):
    spec: Spec = Spec()


MACHINE = Kind("example.io", "v1", "Machine", "machines", Machine)
NODE = Kind("", "v1", "Node", "nodes", Object, namespaced=False)
GVK = {"group": "example.io", "version": "v1", "kind": "Machine"}


async def allow(review: Review) -> Decision:
    return Decision.allow()


def hook(**fields: Any) -> Hook:
    wanted: dict[str, Any] = {"name": "guard", "phase": "validate", "targets": (Target.of(MACHINE, "CREATE"),), "answer": allow}
    return Hook(**wanted | fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"name": "Guard.io"}, "a name is lower-case", id="a name that cannot be part of a host name"),
        pytest.param({"targets": ()}, "never be asked", id="a hook without a target"),
        pytest.param({"timeout": 31}, "1 to 30 s", id="a timeout that the API does not allow"),
        pytest.param({"timeout": 0}, "1 to 30 s", id="no time at all"),
        pytest.param(
            {"targets": (Target.of(NODE, "CREATE"),), "not_in": ("kube-system",)},
            "in no namespace",
            id="an exclusion by namespace on a kind that is in none",
        ),
        pytest.param({"reinvoke": True}, "only a mutating hook", id="a validating hook that is asked again"),
    ],
)
def test_a_hook_that_makes_no_sense_cannot_be_declared(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        hook(**fields)


def test_a_target_names_subresources_one_by_one() -> None:
    assert Target.of(MACHINE, "UPDATE").resources == ("machines",)
    assert Target.of(MACHINE, "UPDATE", subresources=("status",)).resources == ("machines/status",)
    assert Target.of(MACHINE, "UPDATE", subresources=("", "scale")).resources == ("machines", "machines/scale")
    assert Target.of(NODE, "CREATE").scope == "Cluster"


def test_objects_are_decoded_into_the_type_that_is_asked_for() -> None:
    found = review(kind=GVK, object={"metadata": {"name": "a"}, "spec": {"cores": 2, "unknown": 1}})

    assert found.object(MACHINE).spec == Spec(cores=2)
    assert found.old(MACHINE) is None
    assert (found.user.username, found.user.extra["scopes"]) == ("jane", ("a", "b"))


def test_a_review_of_another_kind_is_never_read_as_ours() -> None:
    with pytest.raises(TypeError, match=r"/v1 ConfigMap was read as example.io/v1 Machine"):
        review().object(MACHINE)


def test_a_deletion_has_no_object() -> None:
    found = review(kind=GVK, operation="DELETE", object=None, oldObject={"metadata": {"name": "a"}})

    with pytest.raises(LookupError, match="DELETE carries no object"):
        found.object(MACHINE)
    assert found.old(MACHINE) == Machine(metadata=Meta(name="a"))


def test_an_object_that_does_not_fit_is_a_refusal_that_names_the_field() -> None:
    with pytest.raises(Unreadable) as caught:
        review(kind=GVK, object={"spec": {"disks": [{"name": "a", "size": 5}]}}).object(MACHINE)

    assert caught.value.cause.field == "spec.disks[0].size"


def machine(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "annotations": {"x/y~z": "1"}, "managedFields": [1]}, "spec": spec, "other": True}


@pytest.mark.parametrize(
    ("spec", "new", "expected"),
    [
        pytest.param({"cores": 1, "more": {"a": 1}}, Spec(cores=2), {"cores": 2, "more": {"a": 1}}, id="a changed number"),
        pytest.param({"cores": 1, "more": 1}, Spec(), {"more": 1}, id="a number that is back at its default"),
        pytest.param({"more": 1}, Spec(cores=3), {"cores": 3, "more": 1}, id="an object that had only fields without a type"),
        pytest.param(
            {"disks": [{"name": "a", "bus": 1}, {"name": "b", "bus": 2}]},
            Spec(disks=(Disk(name="b"), Disk(name="a", size="1"))),
            {"disks": [{"name": "b", "bus": 2}, {"name": "a", "bus": 1, "size": "1"}]},
            id="items in another order, one of them changed",
        ),
        pytest.param(
            {"disks": [{"name": "a", "bus": 1}, {"name": "b", "bus": 2}]},
            Spec(disks=(Disk(name="b"),)),
            {"disks": [{"name": "b", "bus": 2}]},
            id="an item less",
        ),
        pytest.param(
            {"disks": [{"name": "a", "bus": 1}]},
            Spec(disks=(Disk(name="new"), Disk(name="a"))),
            {"disks": [{"name": "new"}, {"name": "a", "bus": 1}]},
            id="an item more, in front",
        ),
    ],
)
def test_a_change_of_typed_fields_leaves_all_others(spec: dict[str, Any], new: Spec, expected: dict[str, Any]) -> None:
    whole = machine(**spec)
    found = review(kind=GVK, object=whole)
    old = found.object(MACHINE)

    decision = found.change(old, replace(old, spec=new))

    assert jsonpatch.apply_patch(whole, list(decision.patch)) == machine(**expected)


def test_annotations_with_awkward_names_are_patched_one_by_one() -> None:
    found = review(kind=GVK, object=machine())
    old = found.object(MACHINE)
    meta = replace(old.metadata, annotations={"x/y~z": "2", "new": "3"})

    decision = found.change(old, replace(old, metadata=meta))

    assert decision.patch == (
        {"op": "replace", "path": "/metadata/annotations/x~1y~0z", "value": "2"},
        {"op": "add", "path": "/metadata/annotations/new", "value": "3"},
    )


def test_no_change_is_no_patch() -> None:
    found = review(kind=GVK, object=machine(cores=1))
    old = found.object(MACHINE)

    assert found.change(old, old) == Decision.allow()


keys = st.sampled_from(["a", "b/c", "d~e", ""])
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(old=st.dictionaries(keys, documents, max_size=3), new=st.dictionaries(keys, documents, max_size=3))
def test_the_difference_makes_the_new_document_of_the_old(old: Any, new: Any) -> None:
    made = jsonpatch.apply_patch(old, list(difference(old, new)))

    assert _typed(made) == _typed(new)


@given(old=st.dictionaries(keys, documents, max_size=3), new=st.dictionaries(keys, documents, max_size=3))
def test_where_the_type_names_everything_the_overlay_is_the_new_document(old: Any, new: Any) -> None:
    def without_empty_objects(value: Any) -> Any:
        return value if not isinstance(value, dict) else {k: v for k, v in value.items() if v != {}}

    assert without_empty_objects(overlay(old, old=old, new=new)) == without_empty_objects(new)


def _typed(value: Any) -> Any:
    """JSON tells true from 1, Python does not."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value).__name__, value


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, 1), (0.2, 1), (1.0, 1), (1.1, 2), (30.0, 30)])
def test_a_wait_is_whole_seconds_and_never_none(seconds: float, shown: int) -> None:
    assert Decision.again("later", retry_after=seconds).retry_after == shown
