"""Durable session logs: records, their codec, the store protocol and the store in memory. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zett_agent._lazy import lazy_names

__all__ = (
    "FORMAT_VERSION",
    "MESSAGE_TYPES",
    "Lease",
    "MemorySessionStore",
    "MessageKind",
    "NewRecord",
    "Record",
    "RecordKind",
    "SessionInfo",
    "SessionState",
    "SessionStore",
    "decode_message",
    "decode_messages",
    "decode_record",
    "encode_message",
    "encode_messages",
    "encode_record",
    "register_message_type",
)

_NAMES = {
    "base": "Lease SessionInfo SessionState SessionStore",
    "codec": "decode_message decode_messages decode_record encode_message encode_messages encode_record",
    "memory": "MemorySessionStore",
    "messages": "MESSAGE_TYPES MessageKind register_message_type",
    "records": "FORMAT_VERSION NewRecord Record RecordKind",
}

if TYPE_CHECKING:
    from zett_agent.storage.base import Lease, SessionInfo, SessionState, SessionStore
    from zett_agent.storage.codec import (
        decode_message,
        decode_messages,
        decode_record,
        encode_message,
        encode_messages,
        encode_record,
    )
    from zett_agent.storage.memory import MemorySessionStore
    from zett_agent.storage.messages import MESSAGE_TYPES, MessageKind, register_message_type
    from zett_agent.storage.records import FORMAT_VERSION, NewRecord, Record, RecordKind
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
