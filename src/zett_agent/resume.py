"""Where a stopped conversation can go on, at the interface's path."""

from zett_agent._runtime.resumption import ResumeKind, ResumePoint, classify_resume

__all__ = ["ResumeKind", "ResumePoint", "classify_resume"]
