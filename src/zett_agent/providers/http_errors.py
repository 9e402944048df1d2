"""What an HTTP failure, an error object in a stream and a broken connection mean."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from http.client import responses
from typing import Any

from zett_agent._failures import failure_text
from zett_agent.exceptions import ProviderAuthError, ProviderHTTPError, ProviderResponseError
from zett_agent.providers.base import hide_secrets, load_json
from zett_agent.providers.retry import Failure, retry_after_seconds
from zett_agent.stop import StopInfo, StopReason

_READ = 16_384  # a longer body is cut before any pattern looks at it
_PREVIEW = 300
_TITLE = 120
_STATUS = re.compile(r"[45][0-9]{2}")
_NEVER_RETRY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_CONTEXT_TEXT = re.compile(r"maximum context length|context (length|window|size) (is )?exceeded|exceeds? .*context")
# What is never closed reaches to the end: a search that fails there would begin anew at each of a thousand openings.
_TITLE_TAG = re.compile(r"<(title|h[1-3])\b[^<>]*>(.*?)(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
# The words that services put in ``code`` or ``type`` of an error object inside a stream, where no status can say it.
_STATUS_OF_WORD = (
    (re.compile(r"rate_?limit|too_many|quota|billing"), 429),
    (re.compile(r"overload|unavailable|capacity"), 503),
    (re.compile(r"authentication|invalid_api_key|unauthorized"), 401),
    (re.compile(r"permission|forbidden"), 403),
    (re.compile(r"not_found"), 404),
    (re.compile(r"timeout"), 408),
    (re.compile(r"invalid|context_length|exceed_context|content_filter"), 400),
)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The readable part of a failure: a bounded preview, the lower-case code words, and the error object itself."""

    preview: str
    words: tuple[str, ...] = ()
    is_html: bool = False
    error: Mapping[str, Any] = field(default_factory=dict)


def read_error_body(content_type: str, text: str, secrets: Sequence[str] = ()) -> ErrorBody:
    """Read a body that is JSON, HTML or plain text; the preview shows none of ``secrets``, however they were spelt."""
    text = text[:_READ]
    head = text.lstrip()[:64].lower()
    if "html" in content_type.lower() or head.startswith(("<!doctype html", "<html", "<head", "<body")):
        return ErrorBody(_html_preview(text, secrets), is_html=True)
    try:
        value = load_json(text)
    except ValueError:
        return ErrorBody(_bounded(text, _PREVIEW, secrets))
    return read_error_object(value, secrets)


def read_error_object(value: object, secrets: Sequence[str] = ()) -> ErrorBody:
    """Read a decoded error: ``{"error": {...}}``, the inner object, or a bare string."""
    inner = value.get("error", value) if isinstance(value, Mapping) else value
    if not isinstance(inner, Mapping):
        inner = {"message": inner if isinstance(inner, str) else json.dumps(inner)}
    texts = (inner.get(key) for key in ("message", "detail", "msg", "error_description"))
    message = next((text for text in texts if isinstance(text, str) and text.strip()), None) or json.dumps(inner)
    values = (inner.get(key) for key in ("code", "type", "status"))
    words = tuple(str(value).lower() for value in values if isinstance(value, str | int))
    return ErrorBody(_bounded(message, _PREVIEW, secrets), words, error=inner)


def http_failure(provider: str, status: int, body: ErrorBody, headers: Mapping[str, str]) -> Failure:
    """Classify a status: 408, 409, 429 and 5xx may be repeated, an exhausted quota may not."""
    reason = responses.get(status)
    text = f"{provider} answered {status}{f' {reason}' if reason else ''}{f': {body.preview}' if body.preview else ''}"
    if status in (401, 403):
        return Failure(ProviderAuthError(text))
    error = ProviderHTTPError(text, status_code=status, reason=reason, preview=body.preview, is_html=body.is_html)
    retryable = (status in (408, 409, 429) or status >= 500) and not _NEVER_RETRY & {*body.words}
    return Failure(error, retryable, retry_after_seconds(headers))


def stream_failure(provider: str, body: ErrorBody) -> Failure:
    """Classify an error object that arrived inside a stream as its HTTP status would be; an unknown one is a 500."""
    return http_failure(provider, _stream_status(body.words), body, {})


def _stream_status(words: tuple[str, ...]) -> int:
    for word in words:
        if _STATUS.fullmatch(word):
            return int(word)
    joined = " ".join(words)
    return next((status for pattern, status in _STATUS_OF_WORD if pattern.search(joined)), 500)


def stop_of_failure(status: int, body: ErrorBody) -> StopInfo | None:
    """The stop that a refused request amounts to (a content filter, a moderation verdict, a full context), or None."""
    if status == 400 and {"content_filter", "content_policy_violation"} & {*body.words}:
        return StopInfo(StopReason.REFUSAL, "content_filter", "content_filter", body.preview)
    metadata = body.error.get("metadata")
    if status == 403 and isinstance(metadata, Mapping):
        for key, category in (("reasons", "moderation"), ("patterns", "guardrail")):
            if metadata.get(key):
                return StopInfo(StopReason.REFUSAL, "refusal", category, body.preview)
    if status in (400, 413) and (_CONTEXT_CODES & {*body.words} or _CONTEXT_TEXT.search(body.preview.lower())):
        return StopInfo(StopReason.CONTEXT_FULL, "context_length_exceeded", message=body.preview)
    return None


def transport_failure(provider: str, what: str, error: BaseException, secrets: Sequence[str] = ()) -> Failure:
    """A connection that could not be made, or broke; a certificate that is not trusted is not worth another try."""
    chain = list(error_chain(error))
    untrusted = next((link for link in chain if isinstance(link, ssl.SSLCertVerificationError)), None)
    deepest = untrusted or next((link for link in reversed(chain) if str(link)), chain[-1])
    hint = "; pass an http_client that trusts it" if untrusted else ""
    return Failure(ProviderResponseError(f"{provider}: {what}: {_describe(deepest, secrets)}{hint}"), untrusted is None)


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error, its cause, and so on."""
    link: BaseException | None = error
    for _ in range(16):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _describe(error: BaseException, secrets: Sequence[str]) -> str:
    return _bounded(failure_text(error), _PREVIEW, secrets)


def _html_preview(text: str, secrets: Sequence[str]) -> str:
    found = _TITLE_TAG.search(text)
    if found and (title := _bounded(_plain(found[2]), _TITLE, secrets)):
        return title
    return _bounded(_plain(_HIDDEN.sub(" ", text)), _PREVIEW, secrets)


def _plain(markup: str) -> str:
    return unescape(_TAG.sub(" ", markup))


def _bounded(text: str, limit: int, secrets: Sequence[str]) -> str:
    text = " ".join(text.split())
    text = hide_secrets("".join(character for character in text if character.isprintable()), secrets)
    return text if len(text) <= limit else f"{text[:limit]}..."
