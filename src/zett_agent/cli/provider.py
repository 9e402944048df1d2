"""From the options of a command to a model."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from zett_agent.cli.faults import UsageFault
from zett_agent.providers.base import check_base_url
from zett_agent.providers.openai import DEFAULT_BASE_URL, OpenAIProvider

#: What a loopback server is sent when the environment has no key for it.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server and how to reach it; the key is in no repr."""

    base_url: str
    model: str
    key: str = field(repr=False)
    max_tokens: int | None = None

    @classmethod
    def from_options(cls, base_url: str | None, model: str, api_key_env: str, max_tokens: int | None) -> Endpoint:
        """Take the key from the environment variable ``api_key_env``; UsageFault when it is needed and not there."""
        try:
            url = check_base_url(base_url or DEFAULT_BASE_URL)
        except ValueError as error:
            raise UsageFault(str(error)) from error
        key = os.environ.get(api_key_env, "").strip()
        if not key and not _is_loopback(url):
            raise UsageFault(f"no key: set {api_key_env}, or name another variable with --api-key-env")
        return cls(url, model, key or _NO_KEY, max_tokens)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be printed."""
        return () if self.key == _NO_KEY else (self.key,)

    def provider(self) -> OpenAIProvider:
        """The model; UsageFault when an option is impossible."""
        try:
            return OpenAIProvider(self.model, self.key, base_url=self.base_url, max_tokens=self.max_tokens)
        except ValueError as error:
            raise UsageFault(str(error)) from error


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
