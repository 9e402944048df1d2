from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zett_agent.providers.sse import EventStreamDecoder, ServerSentEvent

STREAM = (
    "\ufeff: hello\n\n"
    'data: {"text":"naïve 🙂"}\n\n'
    "event: ping\ndata:\n\n"
    "event: keepalive\r\ndata: {}\r\n\r\n"
    "id: 7\nretry: 10\ndata: first\ndata:second\n\n"
    "data\n\n"
    "event: error\rdata: cr\r\r"
    "data: [DONE]"
).encode()
EVENTS = [
    ServerSentEvent("", '{"text":"naïve 🙂"}'),
    ServerSentEvent("keepalive", "{}"),
    ServerSentEvent("", "first\nsecond"),
    ServerSentEvent("error", "cr"),
    ServerSentEvent("", "[DONE]"),
]


def decode(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = EventStreamDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def test_stream_07_bom_comments_pings_crlf_and_multi_line_data_are_read() -> None:
    assert decode(STREAM) == EVENTS


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_stream_07_a_stream_cut_in_two_anywhere_reads_the_same(at: int) -> None:
    assert decode(STREAM[:at], STREAM[at:]) == EVENTS


def test_stream_07_a_stream_that_comes_byte_by_byte_reads_the_same() -> None:
    assert decode(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == EVENTS


@given(
    lines=st.lists(
        st.sampled_from([b"data: x", b"data: \xf0\x9f\x99\x82", b"data:", b": c", b"event: e", b"", b"junk"])
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1),
    cuts=st.lists(st.integers(0, 200)),
)
def test_stream_07_events_do_not_depend_on_line_ends_or_on_cuts(
    lines: list[bytes], ends: list[bytes], cuts: list[int]
) -> None:
    plain = b"".join(line + b"\n" for line in lines)
    # A lone CR before an LF would be read as one end of line, so a stream keeps one kind.
    stream = plain.replace(b"\n", ends[0])
    at = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    assert decode(*(stream[start:end] for start, end in pairwise(at))) == decode(plain)
