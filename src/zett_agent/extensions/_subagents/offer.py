"""The kinds of subagents that a request offers, and how its model is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated
from weakref import WeakKeyDictionary

from pydantic import Field

from zett_agent.context import AgentRunContext
from zett_agent.extensions._subagents.definition import NAME_LENGTH, SubAgentDefinition, default_subagents
from zett_agent.model import AgentModel
from zett_agent.tools.base import AgentTool

# What a model writes when it hands work over.
Description = Annotated[str, Field(min_length=1, max_length=120)]
Prompt = Annotated[str, Field(min_length=1, max_length=100_000)]
SubAgentName = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]

_REMEMBERED_MODELS = 8


class Offer:
    """The kinds that one extension offers: those that it was given, or the built-in ones on the request's model."""

    def __init__(self, subagents: Sequence[SubAgentDefinition] | None) -> None:
        self._given = None if subagents is None else _by_name(subagents)
        self._built_in: list[tuple[AgentModel, Mapping[str, SubAgentDefinition]]] = []
        self._choices: WeakKeyDictionary[AgentRunContext, Mapping[str, SubAgentDefinition]] = WeakKeyDictionary()

    def kinds(self, model: AgentModel) -> Mapping[str, SubAgentDefinition]:
        """The kinds by name, for a request with this model."""
        if self._given is not None:
            return self._given
        for known, profiles in self._built_in:
            if known is model:
                return profiles
        profiles = _by_name(default_subagents(model))
        self._built_in = [(model, profiles), *self._built_in[: _REMEMBERED_MODELS - 1]]
        return profiles

    def make(
        self, template: AgentTool, context: AgentRunContext, subagents: Mapping[str, SubAgentDefinition]
    ) -> AgentTool:
        """Offer ``subagents`` in a request: ``template`` with their names in its schema, and what each is for."""
        self._choices[context] = subagents
        properties = dict(template.parameters["properties"])
        properties["subagent_type"] = {**properties["subagent_type"], "enum": list(subagents)}
        lines = [f"subagent_type {profile.name}: {profile.description}" for profile in subagents.values()]
        return replace(
            template,
            parameters={**template.parameters, "properties": properties},
            guidelines=(*template.guidelines, *lines),
        )

    def choose(self, context: AgentRunContext, name: str) -> SubAgentDefinition:
        """The kind that the request offers under this name; ValueError names those that there are."""
        choices = self._choices.get(context, {})
        if name not in choices:
            raise ValueError(f"there is no subagent {name!r}; choose one of {', '.join(choices)}")
        return choices[name]


def _by_name(subagents: Sequence[SubAgentDefinition]) -> Mapping[str, SubAgentDefinition]:
    given: object = subagents
    if not isinstance(given, Sequence) or not all(isinstance(item, SubAgentDefinition) for item in given):
        raise TypeError(f"subagents must be a list of SubAgentDefinition objects, not {given!r:.100}")
    named = {definition.name: definition for definition in subagents}
    if not named:
        raise ValueError("subagents must not be empty; leave it out for the built-in profiles")
    if len(named) != len(subagents):
        raise ValueError(f"two subagents have the same name: {', '.join(item.name for item in subagents)}")
    return named
