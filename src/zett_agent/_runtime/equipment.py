"""What an agent is equipped with: its model and tools, checked, and the extensions that it calls."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from inspect import iscoroutinefunction, isroutine, unwrap

from zett_agent._checks import has_method, instance
from zett_agent._runtime.hooks import HookChain
from zett_agent.events import ExtensionEvent
from zett_agent.exceptions import AgentProtocolError
from zett_agent.extensions.base import ActivePort, AgentExtension
from zett_agent.extensions.internal_message import InternalMessageExtension
from zett_agent.extensions.memory import InMemoryMessageAccumulator
from zett_agent.extensions.steering import InboxFinder, SteeringExtension
from zett_agent.extensions.tool_guidelines import ToolGuidelinesExtension
from zett_agent.model import AgentModel
from zett_agent.storage.base import SessionStore
from zett_agent.tools.base import AgentTool

_ASYNC_HOOKS = frozenset(name for name in vars(AgentExtension) if iscoroutinefunction(getattr(AgentExtension, name)))
_PLAIN_HOOKS = frozenset({"accept", "for_child", "forget", "open_waits", "request_finished", "request_started"})


class Lineup:
    """The extensions of one agent, the caller's and the two that are built in, with their hooks bound.

    Who leaves or joins does so for later requests: one that runs keeps the chain that it began with.
    """

    __slots__ = ("_built_in", "_lock", "_own", "_user", "hooks")

    def __init__(self, user: ActivePort, own: Sequence[AgentExtension], find_inbox: InboxFinder) -> None:
        self._user = user
        self._lock = threading.Lock()
        self._built_in = (InternalMessageExtension(find_inbox), SteeringExtension(find_inbox))
        self._bind(own)
        for extension in self.hooks.extensions:
            extension.attach(user)

    def add(self, extension: AgentExtension) -> None:
        """Call ``extension``, too; ValueError or TypeError when it cannot be, and nothing is changed then."""
        with self._lock:
            self._bind([*self._own, extension])
        extension.attach(self._user)

    def remove(self, name: str) -> AgentExtension:
        """Call the extension of that name no more, and return it.

        ValueError when there is none that can be removed; AgentProtocolError while a request is active, or while it has
        open questions: their answers could not reach it.
        """
        found = next((extension for extension in self._own if extension.name == name), None)
        if found is None:
            raise ValueError(f"no extension named {name!r} can be removed")
        if self._user.pending or found.open_waits(None):
            raise AgentProtocolError(f"{name!r} serves a request or has an open question; stop that first")
        with self._lock:
            self._bind([extension for extension in self._own if extension is not found])
        found.detach(self._user)
        return found

    def _bind(self, own: Sequence[AgentExtension]) -> None:
        _check_extensions(own)
        self.hooks, self._own = HookChain([*own, *self._built_in]), tuple(own)


def default_extensions(*, has_store: bool) -> Sequence[AgentExtension]:
    """What an agent brings when it is told nothing: memory, unless a store remembers, and tool guidelines."""
    memory = [] if has_store else [InMemoryMessageAccumulator()]
    return [*memory, ToolGuidelinesExtension()]


def checked_model(model: AgentModel | None) -> AgentModel | None:
    """``model`` as it is; TypeError when it cannot stream."""
    if model is not None:
        has_method("model", model, "stream", "AgentModel")
    return model


def checked_store(store: SessionStore | None) -> SessionStore | None:
    """``store`` as it is; TypeError when it cannot append."""
    if store is not None:
        has_method("store", store, "append", "SessionStore")
    return store


def tools_by_name(tools: Sequence[AgentTool]) -> dict[str, AgentTool]:
    """``tools`` by their names; ValueError for what is no tool, or a name that two have."""
    named: dict[str, AgentTool] = {}
    if isinstance(tools, AgentTool) or not isinstance(tools, Iterable):
        raise TypeError(f"tools must be a list of AgentTool objects, not a single {type(tools).__name__}")
    for tool in tools:
        if not isinstance(tool, AgentTool):
            raise ValueError(f"tools must hold AgentTool objects (see @tool), not {type(tool).__name__}")
        if tool.name in named:
            raise ValueError(f"two tools are named {tool.name!r}")
        named[tool.name] = tool
    return named


def _check_extensions(extensions: Sequence[AgentExtension]) -> None:
    """TypeError for what is no list of extensions, ValueError for names that are blank, taken or reserved."""
    if isinstance(extensions, AgentExtension) or not isinstance(extensions, Iterable):
        raise TypeError(f"extensions must be a list, not a single {type(extensions).__name__}")
    names: set[str] = set()
    for extension in extensions:
        if not isinstance(extension, AgentExtension):
            given = f"the class {extension.__name__}" if isinstance(extension, type) else type(extension).__name__
            raise TypeError(f"extensions must hold AgentExtension objects, not {given}")
        if isinstance(extension, InternalMessageExtension | SteeringExtension):
            raise ValueError(f"{type(extension).__name__} is built into every agent and cannot be passed")
        name = extension.name
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"extension name of {type(extension).__name__} must not be blank")
        if name in names | {"InternalMessageExtension", "SteeringExtension"}:
            raise ValueError(f"two extensions are named {name!r}; set a distinct .name on one")
        names.add(name)
        _check_attributes(extension)
        _check_hooks(extension)


def _check_attributes(extension: AgentExtension) -> None:
    """TypeError for what a class may set, and has set to what orders nothing or names no notifications."""
    kind = type(extension).__name__
    instance(f"priority of {kind}", extension.priority, int)
    wanted: object = extension.subscribes
    if not isinstance(wanted, tuple | list) or not all(
        isinstance(e, type) and issubclass(e, ExtensionEvent) for e in wanted
    ):
        raise TypeError(f"subscribes of {kind} must be a tuple of ExtensionEvent classes, not {wanted!r:.100}")


def _check_hooks(extension: AgentExtension) -> None:
    """A coroutine taken for an answer is an answer lost; what cannot be awaited fails in the middle of a request."""
    for hook in _ASYNC_HOOKS | _PLAIN_HOOKS:
        own = getattr(extension, hook)
        if getattr(own, "__func__", None) is getattr(AgentExtension, hook):
            continue
        if _is_async(own) if hook in _PLAIN_HOOKS else isroutine(own) and not _is_async(own):
            wanted = "async def" if hook in _ASYNC_HOOKS else "def, without async"
            raise TypeError(f"{hook} of {type(extension).__name__} must be a function made with {wanted}")


def _is_async(hook: object) -> bool:
    """Made with ``async def``, also behind a decorator that says what it wraps."""
    return iscoroutinefunction(hook) or (callable(hook) and iscoroutinefunction(unwrap(hook)))
