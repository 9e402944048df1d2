"""The queue between a request and its consumer, at the interface's path."""

from zett_agent._runtime.channel import Channel as AgentEventQueue

__all__ = ["AgentEventQueue"]
