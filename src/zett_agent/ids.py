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
    random = int.from_bytes(os.urandom(10))
    with _LOCK:
        # 48 bits of milliseconds and 12 bits of the fraction; a repeated tick is moved on by one.
        _last = max(_last + 1, (time.time_ns() << 12) // 1_000_000)
        stamp = _last
    low = random & ((1 << 62) - 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | low
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
