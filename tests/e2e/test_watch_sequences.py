"""What a watcher sees, event by event: from a version, from now, through selectors, through deletions and disconnects."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from .api import Api, Json, Watch
from .conftest import DEFINITIONS, wait_served
from .kinds import OWN_MAPS, configmap, gauge, throwaway

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
BOUND = "timeoutSeconds=15"  # no watch outlives its test by much, whatever goes wrong


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def gauges(namespace: str) -> str:
    return f"/apis/e2e.example.com/v1/namespaces/{namespace}/gauges"


def version_of(api: Api, path: str) -> str:
    return str(api.get(path).obj["metadata"]["resourceVersion"])


def seen(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def versions(events: list[Json]) -> list[int]:
    return [int(event["object"]["metadata"]["resourceVersion"]) for event in events]


def test_a_watch_from_a_version_sees_every_later_change_in_order(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    api.create(maps, configmap("a", {"k": "1"}))
    api.merge(f"{maps}/a", {"data": {"k": "2"}})
    with api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as watch:
        api.delete(f"{maps}/a")
        api.create(maps, configmap("b"))
        events = watch.take(4)
    assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert versions(events) == sorted(set(versions(events))), "each event carries a later version than the one before"
    assert events[1]["object"]["data"] == {"k": "2"}
    assert events[2]["object"]["data"] == {"k": "2"}, "a deletion shows the last state"


def test_a_watch_without_a_version_starts_with_what_is_there(api: Api, maps: str) -> None:
    api.create(maps, configmap("a"))
    api.create(maps, configmap("b"))
    with api.watch(f"{maps}?{OWN_MAPS}&{BOUND}") as watch:
        first = watch.take(2)
        api.create(maps, configmap("c"))
        after = watch.take(1)
    assert sorted(seen(first)) == [("ADDED", "a"), ("ADDED", "b")]
    assert seen(after) == [("ADDED", "c")]


def test_a_watch_from_version_zero_starts_with_what_is_there(api: Api, maps: str) -> None:
    api.create(maps, configmap("a"))
    with api.watch(f"{maps}?{OWN_MAPS}&resourceVersion=0&{BOUND}") as watch:
        first = watch.take(1)
        api.delete(f"{maps}/a")
        after = watch.take(1)
    assert seen(first) == [("ADDED", "a")]
    assert seen(after) == [("DELETED", "a")]


def test_a_watch_of_one_name_sees_only_that(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&fieldSelector=metadata.name%3Db&{BOUND}") as watch:
        api.create(maps, configmap("a"))
        api.create(maps, configmap("b"))
        api.delete(f"{maps}/a")
        api.delete(f"{maps}/b")
        assert seen(watch.take(2)) == [("ADDED", "b"), ("DELETED", "b")]


def test_an_object_that_enters_and_leaves_a_selector_is_added_and_deleted(api: Api, maps: str) -> None:
    api.create(maps, configmap("a", labels={"tier": "cold"}))
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&labelSelector=tier%3Dhot&{BOUND}") as watch:
        api.merge(f"{maps}/a", {"metadata": {"labels": {"tier": "hot"}}})
        api.merge(f"{maps}/a", {"data": {"k": "v"}})
        left = api.merge(f"{maps}/a", {"metadata": {"labels": {"tier": "cold"}}})
        api.merge(f"{maps}/a", {"data": {"k": "w"}})
        api.merge(f"{maps}/a", {"metadata": {"labels": {"tier": "hot"}}})
        events = watch.take(4)
    assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    gone = events[2]["object"]["metadata"]
    assert gone["labels"] == {"tier": "hot"}, "the synthetic deletion shows the last state that matched"
    assert gone["resourceVersion"] == left["metadata"]["resourceVersion"], "under the version of the change"


def test_a_custom_field_selector_follows_the_field(api: Api, gauges: str) -> None:
    api.create(gauges, gauge("a"))
    start = version_of(api, gauges)
    with api.watch(f"{gauges}?resourceVersion={start}&fieldSelector=spec.mode%3DStrict&{BOUND}") as watch:
        api.merge(f"{gauges}/a", {"spec": {"mode": "Strict"}})
        api.merge(f"{gauges}/a", {"spec": {"mode": "Loose"}})
        assert seen(watch.take(2)) == [("ADDED", "a"), ("DELETED", "a")]


def test_finalizers_show_as_modified_until_the_last_one_goes(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as watch:
        api.create(maps, configmap("a", finalizers=["example.com/one", "example.com/two"]))
        api.delete(f"{maps}/a")
        api.merge(f"{maps}/a", {"metadata": {"finalizers": ["example.com/two"]}})
        api.merge(f"{maps}/a", {"metadata": {"finalizers": None}})
        events = watch.take(4)
    assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    marks = ["deletionTimestamp" in event["object"]["metadata"] for event in events]
    assert marks == [False, True, True, True]
    assert events[3]["object"]["metadata"]["finalizers"] == ["example.com/two"], "a deletion shows the state before it"


def test_deleting_many_shows_each(api: Api, maps: str) -> None:
    for name in ("a", "b", "c"):
        api.create(maps, configmap(name))
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as watch:
        assert api.call("DELETE", f"{maps}?{OWN_MAPS}").code == 200
        events = watch.take(3)
    assert sorted(seen(events)) == [("DELETED", "a"), ("DELETED", "b"), ("DELETED", "c")]
    assert versions(events) == sorted(set(versions(events)))


def test_status_and_spec_changes_show_with_their_generations(api: Api, gauges: str) -> None:
    start = version_of(api, gauges)
    with api.watch(f"{gauges}?resourceVersion={start}&{BOUND}") as watch:
        api.create(gauges, gauge("a"))
        api.merge(f"{gauges}/a/status", {"status": {"level": 5}})
        api.merge(f"{gauges}/a", {"spec": {"capacity": 20}})
        api.merge(f"{gauges}/a", {"spec": {"capacity": 20}})  # changes nothing: no event
        api.delete(f"{gauges}/a")
        events = watch.take(4)
    assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [event["object"]["metadata"]["generation"] for event in events] == [1, 1, 2, 2]
    assert all(event["object"]["kind"] == "Gauge" for event in events)


def test_a_watch_in_another_version_names_that_version(api: Api, namespace: str, gauges: str) -> None:
    start = version_of(api, gauges)
    path = f"/apis/e2e.example.com/v1beta1/namespaces/{namespace}/gauges"
    with api.watch(f"{path}?resourceVersion={start}&{BOUND}") as watch:
        api.create(gauges, gauge("a"))
        (event,) = watch.take(1)
    assert event["object"]["apiVersion"] == "e2e.example.com/v1beta1"


def test_a_dry_run_shows_nothing(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as watch:
        assert api.call("POST", f"{maps}?dryRun=All", configmap("ghost")).code == 201
        api.create(maps, configmap("real"))
        assert seen(watch.take(1)) == [("ADDED", "real")]


def test_initial_events_end_with_a_marked_bookmark(api: Api, maps: str) -> None:
    api.create(maps, configmap("a"))
    api.create(maps, configmap("b"))
    query = f"{OWN_MAPS}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{BOUND}"
    with api.watch(f"{maps}?{query}") as watch:
        first = watch.take(3)
        api.create(maps, configmap("c"))
        after = [event for event in watch.take(1) if event["type"] != "BOOKMARK"]
    assert [event["type"] for event in first] == ["ADDED", "ADDED", "BOOKMARK"]
    mark = first[2]["object"]
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
    assert int(mark["metadata"]["resourceVersion"]) >= max(versions(first[:2]))
    assert seen(after) == [("ADDED", "c")]


def test_initial_events_of_a_custom_kind_name_it_in_the_bookmark(api: Api, gauges: str) -> None:
    query = f"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{BOUND}"
    with api.watch(f"{gauges}?{query}") as watch:
        (mark,) = watch.take(1)
    assert (mark["type"], mark["object"]["kind"], mark["object"]["apiVersion"]) == ("BOOKMARK", "Gauge", "e2e.example.com/v1")


def test_without_initial_events_only_later_changes_show(api: Api, maps: str) -> None:
    api.create(maps, configmap("a"))
    query = f"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&{BOUND}"
    with api.watch(f"{maps}?{query}") as watch:
        api.create(maps, configmap("b"))
        assert seen(watch.take(1)) == [("ADDED", "b")]


def test_a_bookmark_comes_before_a_watch_times_out(api: Api, namespace: str, maps: str) -> None:
    start = version_of(api, maps)
    elsewhere = "/api/v1/namespaces/default/configmaps"
    with api.watch(f"{maps}?resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=5") as watch:
        unseen = api.create(elsewhere, configmap(namespace))  # where nothing happened, a server need not send one
        marks = list(watch)
    api.delete(f"{elsewhere}/{namespace}")
    assert {event["type"] for event in marks} == {"BOOKMARK"}, "the server sends one within two seconds of the end"
    assert int(marks[-1]["object"]["metadata"]["resourceVersion"]) >= int(unseen["metadata"]["resourceVersion"])
    assert set(marks[-1]["object"]["metadata"]) - {"creationTimestamp"} == {"resourceVersion"}


def test_a_watch_ends_at_its_timeout(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    begun = time.monotonic()
    with api.watch(f"{maps}?resourceVersion={start}&timeoutSeconds=1") as watch:
        assert watch.code == 200
        assert list(watch) == []
    assert 0.9 < time.monotonic() - begun < 5


def test_a_watch_as_a_table_shows_rows(api: Api, gauges: str) -> None:
    start = version_of(api, gauges)
    with api.watch(f"{gauges}?resourceVersion={start}&{BOUND}", headers=TABLE) as watch:
        api.create(gauges, gauge("a", capacity=7))
        api.merge(f"{gauges}/a", {"spec": {"capacity": 8}})
        first, second = watch.take(2)
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Capacity", "Mode"]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 7]
    assert second["object"]["rows"][0]["cells"][:2] == ["a", 8]
    assert second["object"].get("columnDefinitions") in (None, []), "the columns come once"


def test_a_watcher_that_comes_back_misses_nothing(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        for number in range(60):
            if stop.is_set():
                return
            api.create(maps, configmap(f"n{number:03}"))
            written.append(f"n{number:03}")

    writer = threading.Thread(target=write)
    writer.start()
    found: list[str] = []
    try:
        while len(found) < 60:
            with api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as watch:
                events = watch.take(min(7, 60 - len(found)))  # then hangs up in the middle
            assert events, "the watch ended without an event"
            found += [name for _, name in seen(events)]
            start = str(versions(events)[-1])
    finally:
        stop.set()
        writer.join()
    assert found[:60] == [f"n{number:03}" for number in range(60)]


def test_a_watcher_that_does_not_read_holds_nobody_back(api: Api, maps: str) -> None:
    start = version_of(api, maps)
    with api.watch(f"{maps}?resourceVersion={start}&{BOUND}"), api.watch(f"{maps}?resourceVersion={start}&{BOUND}") as quick:
        for number in range(30):
            api.create(maps, configmap(f"n{number:02}", {"k": "x" * 20_000}))
        assert len(quick.take(30)) == 30


def test_a_watch_of_all_namespaces_sees_every_namespace(api: Api, namespace: str, maps: str) -> None:
    start = version_of(api, maps)
    label = f"labelSelector=run%3D{namespace}"
    with api.watch(f"/api/v1/configmaps?resourceVersion={start}&{label}&{BOUND}") as watch:
        api.create(maps, configmap("a", labels={"run": namespace}))
        api.create("/api/v1/namespaces/default/configmaps", configmap(f"a-{namespace}", labels={"run": namespace}))
        api.delete(f"/api/v1/namespaces/default/configmaps/a-{namespace}")
        events = watch.take(3)
    assert [event["object"]["metadata"]["namespace"] for event in events] == [namespace, "default", "default"]


def test_the_path_under_watch_is_a_watch_too(api: Api, namespace: str, maps: str) -> None:
    start = version_of(api, maps)
    with api.watch(f"/api/v1/watch/namespaces/{namespace}/configmaps?resourceVersion={start}&{BOUND}") as watch:
        api.create(maps, configmap("a"))
        assert seen(watch.take(1)) == [("ADDED", "a")]


def test_a_namespace_terminates_before_the_eyes_of_its_watchers(api: Api, namespace: str, maps: str) -> None:
    start = version_of(api, maps)
    api.create(maps, configmap("a"))
    field = f"fieldSelector=metadata.name%3D{namespace}"
    api.delete(f"/api/v1/namespaces/{namespace}")
    events: list[Json] = []
    for _ in range(6):  # a cluster that has many namespaces to end takes its time
        version = versions(events)[-1] if events else start
        with api.watch(f"/api/v1/namespaces?resourceVersion={version}&{field}&timeoutSeconds=20") as watch:
            events += until_deleted(watch)
        if events and events[-1]["type"] == "DELETED":
            break
    kinds = [event["type"] for event in events]
    assert kinds[0] == "MODIFIED"
    assert kinds[-1] == "DELETED"
    assert events[0]["object"]["status"]["phase"] == "Terminating"
    assert api.get(maps).obj["items"] == []


def until_deleted(watch: Watch) -> Iterator[Json]:
    for event in watch:
        yield event
        if event["type"] == "DELETED":
            return


def test_a_definition_that_goes_takes_its_objects_and_its_watches_along(api: Api, namespace: str) -> None:
    group = f"{namespace}.example.com"
    api.create(DEFINITIONS, throwaway(group))
    path = f"/apis/{group}/v1/namespaces/{namespace}/crumbs"
    wait_served(api, path)
    made = api.create(path, {"apiVersion": f"{group}/v1", "kind": "Crumb", "metadata": {"name": "a"}})
    start = made["metadata"]["resourceVersion"]
    with api.watch(f"{path}?resourceVersion={start}&{BOUND}") as watch:
        api.delete(f"{DEFINITIONS}/crumbs.{group}")
        events = list(until_deleted(watch))
    assert seen(events) == [("DELETED", "a")]
    deadline = time.monotonic() + 20
    while (code := api.get(path).code) != 404:
        assert time.monotonic() < deadline, f"still {code}"
        time.sleep(0.05)
