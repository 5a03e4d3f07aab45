"""Names that nobody else has made up."""

from __future__ import annotations

import os
import time
from uuid import UUID


def new_id(now_ms: int | None = None) -> str:
    """Return a UUID of version 7: unique, and in the order of time."""
    millis = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    number = (millis & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 7 << 76
    return str(UUID(int=number & ~(0b11 << 62) | 0b10 << 62))
