"""What prompts say about tools: their snippets and guidelines, as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from zett_agent.tools.agent_tool import AgentTool

#: Characters of a made-up name that are repeated, and names that are compared with it: comparing is slow.
_MOST_REPEATED = 100
_MOST_COMPARED = 16


def render_tool_guidance(
    tools: Iterable[AgentTool], *, snippets: bool = True, guidelines: bool = True, returns: bool = False
) -> str:
    """What a system prompt says about ``tools``: one block of snippets, one of guidelines, both in the given order."""
    tools = list(tools)
    uses = [lines for tool in tools for lines in _guidance_snippet(tool, snippets, returns)]
    rules = [
        "\n".join([f"## {tool.name}", *_bullets(tool.guidelines)]) for tool in tools if guidelines and tool.guidelines
    ]
    blocks = []
    if uses:
        blocks.append("\n".join(["# Tool snippets", *uses]))
    if rules:
        blocks.append("# Tool guidelines\n" + "\n\n".join(rules))
    return "\n\n".join(blocks)


def _guidance_snippet(tool: AgentTool, snippets: bool, returns: bool) -> list[str]:
    lines = tool.snippet.splitlines() if snippets else []
    described = [f"  returns {_compact(tool.return_schema)}"] if returns and tool.return_schema is not None else []
    if len(lines) == 1:
        return [f"- {tool.name}: {lines[0]}", *described]
    if lines or described:
        return [f"- {tool.name}:", *(f"  {line}" for line in lines), *described]
    return []


def render_tool_description(
    tool: AgentTool, *, snippet: bool = True, guidelines: bool = True, returns: bool = False, base: str | None = None
) -> str:
    """A description with snippet, guidelines and return schema in it, for models that get no guidance otherwise."""
    uses = _bullets(tool.snippet.splitlines()) if snippet else []
    if returns and tool.return_schema is not None:
        uses.append(f"- returns {_compact(tool.return_schema)}")
    rules = _bullets(tool.guidelines) if guidelines else []
    blocks = [tool.description if base is None else base]
    blocks += ["\n".join([title, *lines]) for title, lines in (("Snippet:", uses), ("Guidelines:", rules)) if lines]
    return "\n\n".join(blocks)


def render_tool_search_text(tool: AgentTool) -> str:
    """The text in which a search for tools looks: name, descriptions, snippet and guidelines."""
    properties = tool.parameters.get("properties", {}).values()
    described = [schema["description"] for schema in properties if "description" in schema]
    parts = [tool.name.replace("_", " "), tool.description, *described, tool.snippet, *tool.guidelines]
    return "\n".join(part for part in parts if part)


def unknown_tool_text(name: str, known: Collection[str]) -> str:
    """What a model is told that named a tool which does not exist: quick and short, however many and long the names."""
    shown = name if len(name) <= _MOST_REPEATED else f"{name[:_MOST_REPEATED]}..."
    near = get_close_matches(name, _alike(name, known), n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else " Use one of the tools that are offered."
    return f"There is no tool named {shown!r}.{hint}"


def _alike(name: str, known: Collection[str]) -> list[str]:
    """The few names that may be meant: of a similar length, and first those that begin or end in the same way."""
    size = len(name)
    alike = [other for other in known if 2 * abs(len(other) - size) <= size]
    if len(alike) > _MOST_COMPARED:
        starts = [name[: size * part // 4] for part in (1, 2, 3)]
        end = name[size * 3 // 4 :]
        alike.sort(key=lambda other: -sum(map(other.startswith, starts)) - other.endswith(end))
    return alike[:_MOST_COMPARED]


def _bullets(lines: Iterable[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
