"""Patches and streams: whoever applies what a stream sends has the newest document."""

import asyncio
import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cdc.run.status.document import decode
from cdc.serve.merge_patch import make_patch
from cdc.serve.publisher import KEPT_PATCHES, Publisher, drop_nulls
from cdc.serve.streams import stream_events
from tests.support.serve.samples import SAMPLES, healthy

JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.none() | st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def merge(target: Any, patch: Any) -> Any:
    """As the RFC has it."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, make_patch(before, after)) == after
    assert make_patch(after, deepcopy(after)) == {}


def test_every_sample_is_a_status_document() -> None:
    """What the page is tried with is what the watch writes: no field of another name."""
    for name, make in SAMPLES.items():
        document = make()
        assert decode(json.dumps(document)).pipeline.name == document["pipeline"]["name"], name


def read_events(raw: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in raw.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_reader_who_knows_the_last_patches_gets_patches_and_another_all() -> None:
    publisher, document = Publisher(), healthy()
    publisher.publish(document)
    assert publisher.current is not None
    first = publisher.current.id
    document["took_ms"] = 1
    publisher.publish(document)
    newest, events = publisher.events_after(first)
    assert read_events(events) == [("patch", {"took_ms": 1})]
    assert publisher.events_after(newest) == (newest, b"")
    for unknown in ("", "of another run-1", f"{newest}9", "-"):
        ((kind, whole),) = read_events(publisher.events_after(unknown)[1])
        assert (kind, whole["document"]) == ("snapshot", drop_nulls(document))
    for took in range(KEPT_PATCHES):
        document["took_ms"] = took + 2
        publisher.publish(document)
    assert read_events(publisher.events_after(first)[1])[0][0] == "snapshot"


def test_a_line_of_a_chart_is_sent_once_and_then_its_new_points() -> None:
    publisher, document = Publisher(), healthy()
    publisher.publish(document)
    assert publisher.current is not None
    first, document = publisher.current.id, deepcopy(document)
    series = document["series"]
    for line in (series["slot_bytes"], series["changes_per_minute"]["arrived"], series["freshness"]["lake"]["p50"]):
        line.append(7)
    document["series"] = {**series, "freshness": {"lake": series["freshness"]["lake"]}}
    publisher.publish(document)
    (point, patch) = read_events(publisher.events_after(first)[1])
    assert point[0] == "points"
    assert {key: point[1][key] for key in ("slot_bytes", "arrived")} == {"slot_bytes": 7, "arrived": 7}
    assert point[1]["freshness"]["lake"]["p50"] == 7
    assert patch == ("patch", {})


def test_a_beat_comes_without_a_document_and_a_stream_ends_with_its_reader() -> None:
    publisher = Publisher()

    async def listen() -> list[bytes]:
        stream = stream_events(publisher, "", beat_seconds=0.01)
        heard = [await anext(stream) for _ in range(3)]
        publisher.publish(healthy())
        heard.append(await anext(stream))
        assert publisher.streams == 1
        await stream.aclose()  # type: ignore[attr-defined]
        return heard

    _, beat, again, snapshot = asyncio.run(listen())
    assert [kind for kind, _ in read_events(beat + again)] == ["beat", "beat"]
    assert [kind for kind, _ in read_events(snapshot)] == ["beat", "snapshot"]
    assert publisher.streams == 0


def test_null_in_an_object_says_the_same_as_its_absence() -> None:
    assert drop_nulls({"a": None, "b": {"c": None, "d": [None, 1]}}) == {"b": {"d": [None, 1]}}
