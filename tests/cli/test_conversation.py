from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.cli.people import Screen, Typist
from zett_agent.cli.chat import chat_agent
from zett_agent.cli.conversation import Conversation
from zett_agent.cli.interrupts import Interrupts
from zett_agent.config import AgentRunConfig
from zett_agent.events import AgentEvent, AgentEventType
from zett_agent.exceptions import AgentProtocolError, InputRefusedError, ProviderError
from zett_agent.messages import ToolMessage
from zett_agent.model import AgentModel
from zett_agent.testing import ScriptedModel, call, error, stall, text
from zett_agent.waits import ExternalEvent

CONFIG = AgentRunConfig(session_id="s")


@dataclass
class Talk:
    conversation: Conversation
    screen: Screen
    typist: Typist
    interrupts: Interrupts


@asynccontextmanager
async def talk(model: AgentModel, typist: Typist, *, ask_before: tuple[str, ...] = ()) -> AsyncIterator[Talk]:
    screen = Screen()
    async with await chat_agent(model, ask_before=ask_before) as client:
        with Interrupts() as interrupts:
            conversation = Conversation(client, CONFIG, renderer=screen, person=typist, interrupts=interrupts)
            yield Talk(conversation, screen, typist, interrupts)


def results(model: ScriptedModel) -> list[str]:
    return [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_a_turn_shows_what_happens_and_returns_its_outcome() -> None:
    model = ScriptedModel([text("Adding."), call("add", left=20, right=22)], "It is 42.")
    async with talk(model, Typist()) as it:
        last = await it.conversation.turn("add, please")
    assert last.type is AgentEventType.RUN_COMPLETED
    assert it.screen.text == "\nAdding.\n  ● add(left=20, right=22)\n  ✔ add  42\n\nIt is 42.\n"
    assert it.typist.statuses.count("… waiting for the model") == 2
    assert "… working" in it.typist.statuses and it.typist.statuses[-1] == ""


async def test_a_question_is_asked_in_place_until_its_answer_is_clear() -> None:
    model = ScriptedModel([call("ask_user", question="Which?", options=["red", "blue"])], "Fine.")
    async with talk(model, Typist()) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await it.typist.until_prompted("answer ▸ ")
        it.typist.type("7")
        await it.screen.until("there is no option 7")
        it.typist.type("2")
        await turn
    assert '"answer":"blue"' in results(model)[0]
    assert it.typist.prompts[-1] == ""


async def test_two_questions_of_one_response_are_asked_one_after_the_other() -> None:
    calls = [call("ask_user", question="First?"), call("ask_user", question="Second?"), call("add", left=1, right=1)]
    async with talk(ScriptedModel(calls, "Fine."), Typist()) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await it.screen.until("First?")
        await it.screen.until("✔ add  2")
        assert "Second?" not in it.screen.text
        it.typist.type("one")
        await it.screen.until("Second?")
        it.typist.type("two")
        await turn
    assert "✔ ask_user  one" in it.screen.text and "✔ ask_user  two" in it.screen.text


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("y", "42"),
        ("n too much", "too much"),
        ('e {"right": 1}', "21"),
        ("r about forty", "about forty"),
    ],
)
async def test_an_approval_is_asked_in_place(line: str, result: str) -> None:
    model = ScriptedModel([call("add", left=20, right=22)], "Fine.")
    async with talk(model, Typist(), ask_before=("add",)) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await it.typist.until_prompted("approve? ▸ ")
        assert "left = 20" in it.screen.text
        it.typist.type(line)
        await turn
    assert result in results(model)[0]


@pytest.mark.parametrize("refusal", [[], AgentProtocolError("not now")])
async def test_an_answer_that_is_refused_leaves_the_question_open(
    refusal: list[str] | AgentProtocolError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(event: ExternalEvent, config: AgentRunConfig) -> list[str]:
        if isinstance(refusal, AgentProtocolError):
            raise refusal
        return refusal

    model = ScriptedModel([call("add", left=20, right=22)], "Fine.")
    async with talk(model, Typist(), ask_before=("add",)) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await it.typist.until_prompted("approve? ▸ ")
        with monkeypatch.context() as refusing:
            refusing.setattr(it.conversation._client, "emit_external_event", refuse)
            it.typist.type("y")
            await it.screen.until("that was not accepted; y = yes")
        it.typist.type("y")
        await turn
    assert results(model) == ["42"]


async def test_a_line_typed_meanwhile_steers() -> None:
    gate = stall()
    model = ScriptedModel([text("A long "), gate, text("answer.")], "Shorter.")
    async with talk(model, Typist()) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await gate.reached.wait()
        it.typist.type("   ")
        it.typist.type("shorter")
        await asyncio.sleep(0.01)
        gate.release()
        await turn
    assert it.conversation.steered and not it.conversation.late
    assert it.screen.text == "\nA long answer.\n  ↪ steered: shorter\n\nShorter.\n"


async def test_a_line_that_comes_too_late_to_steer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talk(ScriptedModel("Done."), Typist()) as it:
        assert not it.conversation.steer("too late")
        turn = asyncio.create_task(it.conversation.turn("go"))
        monkeypatch.setattr(it.conversation._client, "emit_external_event", lambda event, config: [])
        it.typist.type("too late, too")
        await turn
    assert list(it.conversation.late) == ["too late, too"] and not it.conversation.steered


async def test_a_full_inbox_keeps_the_line_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(event: ExternalEvent, config: AgentRunConfig) -> list[str]:
        raise InputRefusedError("full")

    async with talk(ScriptedModel("Done."), Typist()) as it:
        monkeypatch.setattr(it.conversation._client, "emit_external_event", refuse)
        assert not it.conversation.steer("x")


async def test_a_stop_ends_the_turn_and_the_session_goes_on() -> None:
    gate = stall()
    async with talk(ScriptedModel([text("Endless "), gate], "Again."), Typist()) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await gate.reached.wait()
        it.interrupts._interrupted()
        assert (await turn).type is AgentEventType.RUN_CANCELLED
        assert it.typist.discarded == 1
        assert (await it.conversation.turn("go on")).type is AgentEventType.RUN_COMPLETED
    assert it.screen.text == "\nEndless\n  · stopping; Ctrl-C again leaves\n  · stopped\n\nAgain.\n"


async def test_a_stop_takes_the_question_away() -> None:
    async with talk(ScriptedModel([call("ask_user", question="Which?")], "Again."), Typist()) as it:
        turn = asyncio.create_task(it.conversation.turn("go"))
        await it.typist.until_prompted("answer ▸ ")
        it.interrupts._interrupted()
        await turn
        assert it.typist.prompts[-1] == ""
        await it.conversation.turn("go on")


async def test_a_failure_is_raised_after_it_was_shown() -> None:
    async with talk(ScriptedModel([text("Well "), error(ProviderError("gone"))]), Typist()) as it:
        with pytest.raises(ProviderError, match="gone"):
            await it.conversation.turn("go")
    assert it.screen.text == "\nWell\n"


@pytest.mark.parametrize("interactive", [True, False])
async def test_when_the_input_has_ended_questions_are_declined(interactive: bool) -> None:
    calls = [call("ask_user", question="Which?"), call("add", left=1, right=1)]
    model = ScriptedModel(calls, [call("ask_user", question="And now?")], "Fine.")
    async with talk(model, Typist(None, interactive=interactive), ask_before=("add",)) as it:
        await it.conversation.turn("go")
    assert it.screen.text.count("nobody is there to answer") == 3
    assert "cannot be asked" in results(model)[0] and "Nobody is at the terminal" in results(model)[1]


async def test_a_pipe_answers_questions_and_never_steers() -> None:
    model = ScriptedModel([call("ask_user", question="Which?")], "Fine.")
    async with talk(model, Typist("blue", "next message", interactive=False)) as it:
        await it.conversation.turn("go")
        assert await it.typist.line() == "next message"
    assert '"answer":"blue"' in results(model)[0]


async def test_a_stream_without_an_outcome_is_a_fault() -> None:
    async def nothing() -> AsyncIterator[AgentEvent]:
        return
        yield

    async with talk(ScriptedModel(), Typist()) as it:
        with pytest.raises(AgentProtocolError, match="without an outcome"):
            await it.conversation._follow(nothing())
