"""Time-ordered identifiers."""

from __future__ import annotations

import os
import threading
import time

_LOCK = threading.Lock()
_last = 0


def new_uuid7() -> str:
    """Return a UUID version 7 (RFC 9562) as 36 characters; ids of one process sort in the order they were made."""
    global _last
    random = int.from_bytes(os.urandom(8))
    with _LOCK:
        # 48 bits of milliseconds and 12 bits of the fraction; a repeated tick is moved on by one.
        _last = max(_last + 1, (time.time_ns() << 12) // 1_000_000)
        stamp = _last
    variant, node = 0x8000 | random >> 50, random & 0xFFFF_FFFF_FFFF
    return f"{stamp >> 28:08x}-{stamp >> 12 & 0xFFFF:04x}-7{stamp & 0xFFF:03x}-{variant:04x}-{node:012x}"
