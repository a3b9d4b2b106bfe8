"""Ids of jobs, made before the call, so that a call that is sent again is the same call."""

from __future__ import annotations

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_job_id() -> str:
    """A UUID v7, which sorts by its time of birth; later ones of this process sort after earlier ones.

    >>> new_job_id() < new_job_id()
    True
    """
    global _last
    with _lock:
        # Milliseconds, and 12 bits of their fraction as RFC 9562 allows; two at once differ by one.
        moment = time.time_ns() * 4096 // 1_000_000
        _last = max(_last + 1, moment)
        moment = _last
    millis, fraction = divmod(moment, 4096)
    random = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    value = (millis & ((1 << 48) - 1)) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | random
    return str(uuid.UUID(int=value))
