"""Permission: which calls run, which wait for a person, and which never run."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from pydantic_core import to_jsonable_python
from typing_extensions import TypeAliasType

from zett_agent._checks import time_limit
from zett_agent.context import AgentRunContext
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import ToolArgumentsError, ToolRejectedError, ToolTimeoutError
from zett_agent.extensions._permission.answers import PermissionAnswer, PermissionAnswerKind
from zett_agent.extensions._permission.policy import (
    PermissionDecision,
    PermissionPolicy,
    PermissionRequest,
    PermissionRule,
    Verdict,
    checked_policy,
    judge,
)
from zett_agent.extensions.base import ToolCallNext
from zett_agent.extensions.external import ExternalEventExtension
from zett_agent.json_types import copy_json, utf8_text
from zett_agent.messages import TextContent, ToolCall, ToolMessage
from zett_agent.tools.base import AgentTool, ToolResult
from zett_agent.tools.threads import shared_pool
from zett_agent.waits import ExternalEvent, Wait

__all__ = [
    "PERMISSION_REQUEST_EVENT_NAME",
    "PERMISSION_RESPONSE_EVENT_NAME",
    "PermissionAnswer",
    "PermissionAnswerKind",
    "PermissionDecision",
    "PermissionExtension",
    "PermissionRequest",
    "PermissionRequestEvent",
    "PermissionRule",
]

PERMISSION_REQUEST_EVENT_NAME = "permission_request"
PERMISSION_RESPONSE_EVENT_NAME = "permission_response"

Approver = TypeAliasType("Approver", Callable[[PermissionRequest], object | Awaitable[object]])

_LOG = logging.getLogger("zett_agent")
_REFUSED = "Refused by the permission policy."
_REJECTED = "Rejected: the call was not approved."
_CORRELATION = "tool_call_id"
_ROUTING = frozenset({_CORRELATION, "session_id"})


class PermissionRequestEvent(AgentEvent):
    """The CUSTOM event ``permission_request``; its payload is the held call and says how to answer."""

    __slots__ = ()

    def __init__(self, request: PermissionRequest) -> None:
        payload = {
            "session_id": request.session_id,
            _CORRELATION: request.tool_call_id,
            "tool": request.tool,
            "arguments": request.sent,
            "path": list(request.path),
            "reason": request.reason,
            "response_event": PERMISSION_RESPONSE_EVENT_NAME,
        }
        super().__init__(AgentEventType.CUSTOM, request.session_id, name=PERMISSION_REQUEST_EVENT_NAME, payload=payload)


@dataclass(slots=True)
class _Grant:
    """What one gate decided about one call; ``allowed`` holds for this tool and these arguments only."""

    tool: str
    arguments: str
    allowed: bool = False
    by_person: bool = False
    edited: Mapping[str, Any] | None = None
    response: object = None

    def covers(self, call: ToolCall) -> bool:
        return self.allowed and self.tool == call.name and self.arguments == _fingerprint(call.arguments)


class PermissionExtension(ExternalEventExtension):
    """Lets a call run only if ``policy`` allows it, by its tool and its validated arguments, whatever the model says.

    The policy is a callable, or rules of which the first that matches decides; ``default`` is for calls that it says
    nothing of. ``ask`` holds the call for a ``permission_response``, or for what ``approve`` returns: True, False or a
    ``PermissionAnswer`` (a plain function runs in a thread). What nobody decided on within ``timeout`` seconds is
    refused, as is a call on which the policy or the approver fails. The decision is bound to tool and arguments: a call
    that is changed afterwards is judged again, right before its handler. A call must pass every extension of this kind
    that the agent has.
    """

    #: Behind the extensions that shape calls: people decide on what will run. Behind it stand only tools that ask.
    priority = 1_100_000

    def __init__(
        self,
        policy: PermissionPolicy = (),
        *,
        default: PermissionDecision | str = PermissionDecision.ASK,
        approve: Approver | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(response_event_name=PERMISSION_RESPONSE_EVENT_NAME, correlation_field=_CORRELATION)
        self.policy = checked_policy(policy)
        self.default = PermissionDecision(default)
        if approve is not None and not callable(approve):
            raise TypeError(f"approve must be a callable or None, not {type(approve).__name__}")
        self.approve = approve
        self.timeout = time_limit("timeout", timeout)
        self._grants: dict[AgentRunContext, dict[str, _Grant]] = {}
        # Of active requests: the session that each session works for.
        self._parents: dict[str, str | None] = {}

    def for_child(self) -> Self:
        """This very gate: a child's calls must pass it, and its questions are answered through any agent above it."""
        return self

    async def before_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Judge the call; hold it when a person must decide, and refuse it by ``call.error``."""
        if call.error is not None or any(grant.response is not None for grant in _decided(context, call.id)):
            return
        try:
            request = self._request(context, call)
        except ToolArgumentsError:
            return  # another hook changed the arguments; the runtime checks them again and says what is wrong
        grant = self._grants.setdefault(context, {})[call.id] = _Grant(call.name, _fingerprint(call.arguments))
        verdict = await self._judge(request)
        if verdict.decision is PermissionDecision.DENY:
            call.error = _refused(verdict)
        elif verdict.decision is PermissionDecision.ALLOW or self._was_approved(context, call):
            grant.allowed = True
        else:
            await self._ask(context, call, replace(request, reason=verdict.reason))

    async def on_tool_call(self, context: AgentRunContext, call: ToolCall, call_next: ToolCallNext) -> ToolResult:
        """Give the result that a person gave in the place of running the call."""
        grant = self._grants.get(context, {}).get(call.id)
        return await call_next() if grant is None or grant.response is None else grant.response

    async def authorize_tool(self, context: AgentRunContext, call: ToolCall) -> None:
        """Let through what was decided on; what was changed since is judged again, and nobody is asked any more."""
        grant = self._grants.get(context, {}).get(call.id)
        if grant is not None and grant.covers(call):
            return
        verdict = await self._judge(self._request(context, call))
        if verdict.decision is PermissionDecision.ASK and self._was_approved(context, call):
            return
        if verdict.decision is not PermissionDecision.ALLOW:
            raise ToolRejectedError(f"{_refused(verdict)} (The call was changed after it was decided on.)")

    async def after_tool(
        self, context: AgentRunContext, call: ToolCall, result: ToolMessage, error: BaseException | None
    ) -> None:
        """Tell the model, which remembers its own arguments, that they were changed."""
        grant = self._grants.get(context, {}).pop(call.id, None)
        if grant is None or grant.edited is None:
            return
        edited = utf8_text(json.dumps(grant.edited, ensure_ascii=False))
        note = f"[A person changed the arguments of this call to {edited}]"
        if isinstance(result.content, str):
            result.content = f"{note}\n{result.content}"
        else:
            result.content = [TextContent(note), *result.content]

    def request_started(self, context: AgentRunContext) -> None:
        """Note on whose behalf the request is made."""
        self._parents[context.session_id] = context.config.parent_session_id

    def request_finished(self, context: AgentRunContext) -> None:
        """Forget what was decided in the request."""
        super().request_finished(context)
        self._grants.pop(context, None)
        self._parents.pop(context.session_id, None)

    def validate_answer(self, wait: Wait, event: ExternalEvent) -> bool:
        """Refuse what is no decision, or names another session; the question stays open."""
        try:
            PermissionAnswer.from_payload(event.payload, ignored=_ROUTING)
        except ValueError:
            return False
        return bool(event.payload.get("session_id", wait.session_id) == wait.session_id)

    def _request(self, context: AgentRunContext, call: ToolCall) -> PermissionRequest:
        tool = context.tools.get(call.name)  # None when another hook renamed the call
        return PermissionRequest(
            tool=call.name,
            arguments=copy_json(call.arguments) if tool is None else _as_taken(tool, call.arguments),
            sent=copy_json(call.arguments),
            session_id=context.session_id,
            request_id=context.request_id,
            tool_call_id=call.id,
            path=self._path(context),
            definition=None if tool is None else tool.definition,
        )

    def _path(self, context: AgentRunContext) -> tuple[str, ...]:
        path: list[str] = []
        above = context.config.parent_session_id
        while above is not None and above not in path:
            path.append(above)
            above = self._parents.get(above)
        return tuple(reversed(path))

    async def _judge(self, request: PermissionRequest) -> Verdict:
        return await judge(self.policy, request, self.default)

    async def _ask(self, context: AgentRunContext, call: ToolCall, request: PermissionRequest) -> None:
        try:
            if self.approve is None:
                answer = await self._by_event(context, request)
            else:
                answer = await self._by_callback(self.approve, request)
        except ToolTimeoutError:
            call.error = f"Refused: nobody decided on the call within {self.timeout:g} seconds."
            return
        grant = self._grants[context][call.id]
        if answer.decision is PermissionAnswerKind.REJECT:
            call.error = f"Rejected: {answer.message}" if answer.message else _REJECTED
        elif answer.decision is PermissionAnswerKind.RESPOND:
            grant.response = answer.result
        elif answer.arguments is None or await self._edit(context, call, answer.arguments):
            grant.allowed, grant.by_person = True, self.approve is None

    async def _by_event(self, context: AgentRunContext, request: PermissionRequest) -> PermissionAnswer:
        async with self._wait_for_external_event(context, request.tool_call_id, timeout=self.timeout):
            await context.emit(PermissionRequestEvent(request))
        answer = self._take_external_event(context, request.tool_call_id)
        return PermissionAnswer.from_payload(answer.payload, ignored=_ROUTING)

    async def _by_callback(self, approve: Approver, request: PermissionRequest) -> PermissionAnswer:
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return PermissionAnswer.from_approver(await _called(approve, request))
        except Exception as error:
            if limit.expired():
                raise ToolTimeoutError("the approver took too long") from None
            _LOG.warning("the approver failed on a call of %s, which is refused", request.tool, exc_info=error)
            return PermissionAnswer.from_approver(False)

    async def _edit(self, context: AgentRunContext, call: ToolCall, given: Mapping[str, Any]) -> bool:
        """Take a person's arguments for the model's, if the tool takes them and the policy does not deny them."""
        grant = self._grants[context][call.id]
        grant.edited = given
        sent, call.arguments = call.arguments, copy_json(given)
        try:
            request = self._request(context, call)
        except ToolArgumentsError as error:
            call.arguments, call.error = sent, str(error)
            return False
        grant.arguments = _fingerprint(call.arguments)
        verdict = await self._judge(request)
        if verdict.decision is PermissionDecision.DENY:
            call.error = _refused(verdict)
        return call.error is None

    def _was_approved(self, context: AgentRunContext, call: ToolCall) -> bool:
        """True when a person approved exactly this call at another gate that asks people: they are not asked twice."""
        approved = any(grant.by_person and grant.covers(call) for grant in _decided(context, call.id))
        return approved and self.approve is None


def _decided(context: AgentRunContext, call_id: str) -> Iterator[_Grant]:
    """What every gate of the request decided about the call so far."""
    for extension in context.extensions:
        if isinstance(extension, PermissionExtension) and call_id in (grants := extension._grants.get(context, {})):
            yield grants[call_id]


def _as_taken(tool: AgentTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the tool's function takes them: a policy that saw ``"500"`` could miss what runs with 500."""
    values = tool.prepare(copy_json(arguments)).values
    taken: dict[str, Any] = to_jsonable_python(values, bytes_mode="base64", serialize_unknown=True)
    return taken


def _fingerprint(arguments: Mapping[str, Any]) -> str:
    """Equal for equal JSON only: True is not 1 here, and no later change of the mapping reaches it."""
    return json.dumps(arguments, sort_keys=True, default=repr)


def _refused(verdict: Verdict) -> str:
    return f"Refused by the permission policy: {verdict.reason}" if verdict.reason else _REFUSED


async def _called(approve: Approver, request: PermissionRequest) -> object:
    """What the approver says; a plain function may block, so it runs in a thread."""
    if inspect.iscoroutinefunction(approve):
        return await approve(request)
    said = await shared_pool().run(partial(approve, request))
    return await said if inspect.isawaitable(said) else said
