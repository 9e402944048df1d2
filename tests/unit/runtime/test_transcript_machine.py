"""Whatever is done to a transcript, calls and results stay paired and views never change."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zett_agent._runtime.transcript import History, Transcript
from zett_agent.messages import AnyMessage, AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from zett_agent.testing import check_transcript


def result(call_id: str) -> ToolMessage:
    return ToolMessage(tool_call_id=call_id, name="t", content=call_id)


class Histories(RuleBasedStateMachine):
    """Appends, inserts, settles, restores and replaces in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.views: list[tuple[History, list[AnyMessage]]] = []
        self.count = 0

    def number(self) -> str:
        self.count += 1
        return str(self.count)

    @rule()
    def user(self) -> None:
        self.transcript.append(UserMessage(content=self.number()))

    @precondition(lambda self: not self.transcript.open_calls)
    @rule(size=st.integers(1, 4))
    def batch(self, size: int) -> None:
        calls = tuple(ToolCall(self.number(), "t") for _ in range(size))
        self.transcript.append(AssistantMessage(tool_calls=calls))

    @precondition(lambda self: self.transcript.open_calls)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.transcript.open_calls))
        self.transcript.append(result(call.id))

    @precondition(lambda self: self.transcript.open_calls)
    @rule()
    def give_up(self) -> None:
        self.transcript.settle_open("given up")

    @rule(index=st.integers(-9, 9))
    def insert(self, index: int) -> None:
        self.transcript.insert(index, SystemMessage(content=self.number()))

    @rule()
    def drop_unanswered(self) -> None:
        self.transcript.drop_unanswered_input()

    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        kept = [message for message in self.transcript.view() if data.draw(st.booleans())]
        self.transcript.replace(kept)

    @rule()
    def next_request(self) -> None:
        earlier = self.transcript.view()
        self.transcript = Transcript([SystemMessage(content=self.number())])
        self.transcript.restore(earlier)

    @rule()
    def look(self) -> None:
        view = self.transcript.view()
        self.views.append((view, list(view)))

    @invariant()
    def views_never_change(self) -> None:
        for view, then in self.views:
            assert list(view) == then

    @invariant()
    def closing_what_is_open_makes_it_whole(self) -> None:
        closed = Transcript()
        closed.restore(self.transcript.view())
        closed.settle_open("closed")
        check_transcript(closed.view())
        if not self.transcript.open_calls:
            check_transcript(self.transcript.view())


TestHistories = Histories.TestCase
