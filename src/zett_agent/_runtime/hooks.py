"""Which extension is called for which hook, decided once per agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from typing_extensions import TypeAliasType

from zett_agent.events import ExtensionEvent
from zett_agent.extensions.base import AgentExtension

_LOG = logging.getLogger("zett_agent")

Hook = TypeAliasType("Hook", Callable[..., Awaitable[None]])


async def each(hooks: tuple[Hook, ...], *arguments: object) -> None:
    """Await one hook after another; the first error stops the rest."""
    for hook in hooks:
        await hook(*arguments)


def tell(hooks: tuple[Callable[..., None], ...], *arguments: object) -> None:
    """Call what only keeps books: it must not fail, and when it does that is logged and the others are told, too."""
    for hook in hooks:
        try:
            hook(*arguments)
        except BaseException as failure:  # whatever it is, it must not keep a session busy or change an outcome
            _LOG.warning("%s failed, which it must not", getattr(hook, "__qualname__", hook), exc_info=failure)


class HookChain:
    """For each hook the extensions that override it, in order. An unused hook is an empty tuple."""

    __slots__ = (
        "_listeners",
        "after_model",
        "after_run",
        "after_tool",
        "after_turn",
        "authorize_tool",
        "before_model",
        "before_run",
        "before_tool",
        "before_turn",
        "extensions",
        "on_compact",
        "on_error",
        "on_message",
        "on_model_request",
        "on_state",
        "on_success",
        "on_tool",
        "on_tool_call",
        "request_finished",
        "request_started",
    )

    def __init__(self, extensions: Sequence[AgentExtension]) -> None:
        self.extensions = tuple(sorted(extensions, key=lambda extension: extension.priority))
        self.on_tool: tuple[Hook, ...] = self._bound("on_tool")
        self.on_state: tuple[Hook, ...] = self._bound("on_state")
        self.on_message: tuple[Hook, ...] = self._bound("on_message")
        self.before_run: tuple[Hook, ...] = self._bound("before_run")
        self.before_turn: tuple[Hook, ...] = self._bound("before_turn")
        self.before_model: tuple[Hook, ...] = self._bound("before_model")
        self.on_model_request: tuple[Callable[..., Any], ...] = self._bound("on_model_request")
        self.after_model: tuple[Hook, ...] = self._bound("after_model")
        self.before_tool: tuple[Hook, ...] = self._bound("before_tool")
        self.on_tool_call: tuple[Callable[..., Any], ...] = self._bound("on_tool_call")
        self.authorize_tool: tuple[Hook, ...] = self._bound("authorize_tool")
        self.after_tool: tuple[Hook, ...] = self._bound("after_tool")
        self.after_turn: tuple[Hook, ...] = self._bound("after_turn")
        self.after_run: tuple[Hook, ...] = self._bound("after_run")
        self.on_success: tuple[Hook, ...] = self._bound("on_success")
        self.on_error: tuple[Hook, ...] = self._bound("on_error")
        self.on_compact: tuple[Hook, ...] = self._bound("on_compact")
        self.request_started: tuple[Callable[..., None], ...] = self._bound("request_started")
        self.request_finished: tuple[Callable[..., None], ...] = self._bound("request_finished")
        self._listeners: dict[type[ExtensionEvent], tuple[tuple[str, Hook], ...]] = {}

    def listeners(self, kind: type[ExtensionEvent]) -> tuple[tuple[str, Hook], ...]:
        """Name and ``on_event`` of each extension that wants notifications of this type."""
        found = self._listeners.get(kind)
        if found is None:
            found = self._listeners[kind] = tuple(
                (extension.name, extension.on_event)
                for extension in self.extensions
                if _overrides(extension, "on_event") and issubclass(kind, _subscribed(extension))
            )
        return found

    def named(self, target: str) -> AgentExtension:
        """The one extension of that name; ValueError when there is none."""
        found = [extension for extension in self.extensions if extension.name == target]
        if len(found) != 1:
            raise ValueError(f"target {target!r} names {len(found)} extensions; it must name one")
        return found[0]

    def _bound(self, hook: str) -> tuple[Any, ...]:
        return tuple(getattr(extension, hook) for extension in self.extensions if _overrides(extension, hook))


def _subscribed(extension: AgentExtension) -> tuple[type[ExtensionEvent], ...]:
    """What ``on_event`` wants: ``subscribes`` is for the class that declares it, and for those that inherit both."""
    nearest = next(cls for cls in type(extension).__mro__ if {"subscribes", "on_event"} & vars(cls).keys())
    if "on_event" in vars(extension) or "subscribes" not in vars(nearest):
        return (ExtensionEvent,)
    return tuple(extension.subscribes)


def _overrides(extension: AgentExtension, hook: str) -> bool:
    if hook in extension.idle_hooks:
        return False
    if hook in vars(extension):
        return True
    return getattr(type(extension), hook) is not getattr(AgentExtension, hook)
