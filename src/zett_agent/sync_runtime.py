"""The bridge between threads and an event loop, at the interface's path."""

from zett_agent._runtime.bridge import SyncContext, SyncObject, SyncRuntime, SyncStream
from zett_agent.sync import SyncModelAdapter, to_sync

__all__ = ["SyncContext", "SyncModelAdapter", "SyncObject", "SyncRuntime", "SyncStream", "to_sync"]
