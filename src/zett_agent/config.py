"""Who a request belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from zett_agent._checks import instance


@dataclass(frozen=True, slots=True)
class AgentRunConfig:
    """The identity of a request.

    Every id is stripped, and a blank one counts as not given. ``request_id`` is made when it is absent and is no
    idempotency key. ``cache_key`` names the provider's prompt cache and defaults to the session.
    """

    session_id: str | None = None
    request_id: str | None = None
    parent_session_id: str | None = None
    cache_key: str | None = None

    def __post_init__(self) -> None:
        if self.session_id is not None:
            self._strip("session_id", self.session_id)
        if self.request_id is not None:
            self._strip("request_id", self.request_id)
        if self.parent_session_id is not None:
            self._strip("parent_session_id", self.parent_session_id)
        if self.cache_key is not None:
            self._strip("cache_key", self.cache_key)
        if self.parent_session_id is not None and self.parent_session_id == self.session_id:
            raise ValueError("parent_session_id must differ from session_id")

    def _strip(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a string or None, not {type(value).__name__}")
        if (stripped := value.strip() or None) != value:
            object.__setattr__(self, name, stripped)


def checked_config(config: AgentRunConfig | None) -> AgentRunConfig | None:
    """``config`` as it is; TypeError when it is something else, such as a session's id."""
    return None if config is None else instance("config", config, AgentRunConfig)
