"""What all providers share: their errors, the checks of their arguments, JSON and secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from zett_agent._checks import is_finite, whole_number
from zett_agent.exceptions import (
    ProviderAuthError,
    ProviderError,
    ProviderHTTPError,
    ProviderRefusalError,
    ProviderResponseError,
    ProviderTimeoutError,
)
from zett_agent.json_types import JsonValue, is_too_deep, json_object, utf8_text

__all__ = [
    "ProviderAuthError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
    "check_base_url",
    "check_count",
    "check_number",
    "check_secret",
    "check_text",
    "check_texts",
    "dump_json",
    "hide_secrets",
    "load_json",
    "secret_values",
    "validate_extra_body",
    "validate_extra_headers",
    "validate_extra_query",
]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def dump_json(value: object) -> str:
    """Compact strict JSON that encodes to UTF-8, keys in the order they have; a non-finite number becomes null."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return utf8_text(text)


def load_json(text: str) -> object:
    """JSON from a service, as ``dump_json`` would write it: NaN and infinity are None; ValueError when it is broken.

    What is nested too deeply to be stored and sent back is broken.
    """
    try:
        value: object = json.loads(text, parse_constant=lambda _: None, parse_float=_finite_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_too_deep(value):
        raise ValueError("nested too deeply")
    return value


def _finite_float(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def check_text(name: str, value: object) -> str:
    """Return ``value`` stripped; ValueError names the field when it is no text or blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a non-blank string")
    return value.strip()


def check_secret(name: str, value: object) -> str:
    """Like ``check_text`` for what goes into a header; the error never shows the value."""
    text = check_text(name, value)
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{name} must hold printable ASCII characters only")
    return text


def check_base_url(value: object) -> str:
    """Return an http(s) URL without a trailing slash; ValueError for anything else, and for credentials in it."""
    text = check_text("base_url", value).rstrip("/")
    if "@" in text:
        raise ValueError("base_url must not hold credentials; use api_key or extra_headers")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in text or "#" in text:
        raise ValueError(f"base_url must be an http or https URL with a host and without a query, not {text!r}")
    return text


def check_number(name: str, value: object) -> float | None:
    """Return a finite number of at least 0, or None."""
    if value is None or (is_finite(value) and value >= 0):
        return value
    raise ValueError(f"{name} must be None or a finite number, at least 0")


def check_count(name: str, value: object) -> int | None:
    """Return an integer of at least 1, or None."""
    return None if value is None else whole_number(name, value, 1)


def check_texts(name: str, value: object) -> tuple[str, ...]:
    """Return one string or several as a tuple of non-empty strings; None gives none."""
    given = () if value is None else value if isinstance(value, list | tuple) else (value,)
    texts = tuple(text for text in given if isinstance(text, str) and text)
    if len(texts) < len(given):
        raise ValueError(f"{name} must be None, a non-empty string or a sequence of them")
    return texts


def validate_extra_headers(value: object) -> dict[str, str]:
    """Return a copy of a mapping from header names to values; ValueError names the field, never a value."""
    headers = {name: text.strip() for name, text in _texts("extra_headers", value).items()}
    if not all(text.isascii() and text.isprintable() for text in headers.values()):
        raise ValueError("extra_headers must hold printable ASCII characters only")
    if not all(_HEADER_NAME.fullmatch(name) for name in headers):
        raise ValueError("extra_headers has a name that no header can have")
    return headers


def validate_extra_query(value: object) -> dict[str, str]:
    """Return a copy of a mapping from query names to values."""
    return _texts("extra_query", value)


def validate_extra_body(value: object, *, reserved: Iterable[str] = ()) -> dict[str, JsonValue]:
    """Return a copy of a JSON object that holds none of the ``reserved`` keys."""
    body = json_object(value, field_name="extra_body")  # type: ignore[arg-type]  # it checks what it is given
    taken = sorted(body.keys() & set(reserved))
    if taken:
        raise ValueError(f"extra_body must not hold {', '.join(taken)}: the provider writes it")
    return body


def _texts(name: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise ValueError(f"{name} must be a mapping from strings to strings")
    return dict(value)


def secret_values(api_key: str, *mappings: Mapping[str, str]) -> tuple[str, ...]:
    """The values that no error may show: the key, and what stands under a name that sounds like a secret."""
    named = [value for mapping in mappings for name, value in mapping.items() if value and _SECRET_NAME.search(name)]
    return tuple(sorted({api_key, *named}, key=len, reverse=True))


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with every secret replaced by ``***``."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
