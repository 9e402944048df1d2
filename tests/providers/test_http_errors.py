from __future__ import annotations

import json
import ssl
from typing import Any

import pytest

from zett_agent.exceptions import ProviderAuthError, ProviderHTTPError, ProviderResponseError
from zett_agent.providers.http_errors import (
    error_chain,
    http_failure,
    read_error_body,
    read_error_object,
    stop_of_failure,
    stream_failure,
    transport_failure,
)
from zett_agent.stop import StopReason


def body_of(**error: Any) -> str:
    return json.dumps({"error": error})


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        (body_of(message="no such model", type="invalid_request_error"), "no such model"),
        ('{"error": "plain"}', "plain"),
        ('{"detail": "fastapi"}', "fastapi"),
        ('{"msg": "short"}', "short"),
        ('{"error": {"error_description": "oauth"}}', "oauth"),
        ('{"error": {"message": " ", "code": 7}}', '{"message": " ", "code": 7}'),
        ('"bare"', "bare"),
        ("[1]", "[1]"),
        ("upstream\n\tsaid\x00 no", "upstream said no"),
        ("", ""),
        ("[" * 100_000, "[" * 300 + "..."),
    ],
)
def test_the_message_is_found_in_every_common_shape(text: str, preview: str) -> None:
    assert read_error_body("application/json", text).preview == preview


@pytest.mark.parametrize(
    ("kind", "text", "preview"),
    [
        (
            "text/html",
            "<html><head><title> Bad\n gateway &amp; more</title></head><body>x</body>",
            "Bad gateway & more",
        ),
        ("", "\n<!DOCTYPE html><body><h2 class=a>Sign <b>in</b></h2>", "Sign in"),
        ("text/html", "<body><script>var x</script>Wait <!-- not this -->here</body>", "Wait here"),
        ("text/html", f"<title>{'t' * 500}</title>", "t" * 120 + "..."),
        ("text/html", "<title></title>words", "words"),
    ],
)
def test_a_page_is_reduced_to_its_title_or_its_words(kind: str, text: str, preview: str) -> None:
    body = read_error_body(kind, text)
    assert body.is_html and body.preview == preview


def test_a_hostile_page_is_read_in_bounded_time_and_space() -> None:
    body = read_error_body("text/html", "<script" * 1_000_000)
    assert len(body.preview) < 400


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, None, False),
        (404, None, False),
        (408, None, True),
        (409, None, True),
        (422, None, False),
        (429, "rate_limit_exceeded", True),
        (429, "insufficient_quota", False),
        (500, None, True),
        (529, None, True),
    ],
)
def test_net_01_one_classifier_says_what_may_be_repeated(status: int, code: str | None, retryable: bool) -> None:
    failure = http_failure("p", status, read_error_body("", body_of(message="m", code=code)), {"retry-after": "2"})
    assert isinstance(failure.error, ProviderHTTPError)
    assert (failure.error.status_code, failure.error.preview, failure.retryable) == (status, "m", retryable)
    assert failure.retry_after == 2


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_an_auth_error(status: int) -> None:
    failure = http_failure("p", status, read_error_body("", ""), {})
    assert isinstance(failure.error, ProviderAuthError) and not failure.retryable


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        ({"code": 429, "message": "slow down"}, ProviderHTTPError, 429, True),
        ({"code": "rate_limit_exceeded"}, ProviderHTTPError, 429, True),
        ({"code": "insufficient_quota"}, ProviderHTTPError, 429, False),
        ({"type": "overloaded_error"}, ProviderHTTPError, 503, True),
        ({"type": "server_error"}, ProviderHTTPError, 500, True),
        ({"message": "?"}, ProviderHTTPError, 500, True),
        ({"type": "invalid_request_error"}, ProviderHTTPError, 400, False),
        ({"code": "not_found"}, ProviderHTTPError, 404, False),
        ({"code": "request_timeout"}, ProviderHTTPError, 408, True),
        ({"code": "invalid_api_key", "type": "invalid_request_error"}, ProviderAuthError, 401, False),
        ({"type": "permission_error"}, ProviderAuthError, 403, False),
        ({"code": 7}, ProviderHTTPError, 500, True),
    ],
)
def test_stream_09_an_error_in_a_stream_is_classified_like_its_status(
    error: dict[str, Any], kind: type[Exception], status: int, retryable: bool
) -> None:
    failure = stream_failure("p", read_error_object({"error": error}))
    assert type(failure.error) is kind and failure.retryable is retryable
    assert getattr(failure.error, "status_code", status) == status


@pytest.mark.parametrize(
    ("status", "error", "reason", "category"),
    [
        (400, {"code": "content_filter", "message": "m"}, StopReason.REFUSAL, "content_filter"),
        (403, {"metadata": {"reasons": ["violence"]}, "message": "m"}, StopReason.REFUSAL, "moderation"),
        (403, {"metadata": {"patterns": ["x"]}, "message": "m"}, StopReason.REFUSAL, "guardrail"),
        (400, {"code": "context_length_exceeded", "message": "m"}, StopReason.CONTEXT_FULL, None),
        (400, {"type": "exceed_context_size_error", "message": "m"}, StopReason.CONTEXT_FULL, None),
    ],
)
def test_c15_a_refused_request_that_is_a_stop_becomes_one(
    status: int, error: dict[str, Any], reason: StopReason, category: str | None
) -> None:
    stop = stop_of_failure(status, read_error_object({"error": error}))
    assert stop is not None and (stop.reason, stop.category, stop.message) == (reason, category, "m")


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens.",
        "the request exceeds the available context size",
        "Context window exceeded",
    ],
)
def test_c15_a_full_context_is_known_by_its_message_too(message: str) -> None:
    body = read_error_object({"message": message})
    stop = stop_of_failure(400, body)
    assert stop is not None and stop.reason is StopReason.CONTEXT_FULL
    assert stop_of_failure(500, body) is None


@pytest.mark.parametrize(("status", "metadata"), [(403, {}), (403, None), (400, {"reasons": ["x"]})])
def test_another_refused_request_is_no_stop(status: int, metadata: object) -> None:
    assert stop_of_failure(status, read_error_object({"error": {"message": "m", "metadata": metadata}})) is None


def test_stream_20_a_broken_connection_is_one_typed_error_that_may_be_repeated() -> None:
    error = RuntimeError("outer")
    error.__cause__ = ConnectionResetError("reset by peer")
    failure = transport_failure("p", "the connection broke", error)
    assert isinstance(failure.error, ProviderResponseError) and failure.retryable
    assert str(failure.error) == "p: the connection broke: ConnectionResetError: reset by peer"
    assert str(transport_failure("p", "x", EOFError()).error) == "p: x: EOFError"


def test_net_03_a_certificate_that_is_not_trusted_is_said_and_not_tried_again() -> None:
    error = RuntimeError("Connection error.")
    error.__context__ = ssl.SSLCertVerificationError("self-signed certificate")
    failure = transport_failure("p", "cannot reach h", error)
    assert (
        not failure.retryable
        and "self-signed certificate" in str(failure.error)
        and "http_client" in str(failure.error)
    )


def test_a_chain_of_causes_that_bites_its_tail_ends() -> None:
    error = ValueError("a")
    error.__cause__ = error
    assert len(list(error_chain(error))) < 100
