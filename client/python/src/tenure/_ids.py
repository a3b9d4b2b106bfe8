"""Ids of jobs, made before the call, so that a call that is sent again is the same call."""

from __future__ import annotations

import hashlib
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


def child_id(parent: str, step: str, index: int) -> str:
    """The id of a child that a step of a job enqueues: the same for each attempt, so that one that comes after a failure or a
    loss finds the children that are there already. ``index`` counts the children of the step, from 0.

    >>> child_id("01900000-0000-7000-8000-000000000001", "fetch", 0)
    '01900000-0000-733b-ba59-210411aa96e3'

    :raises ValueError: if ``parent`` is no id.
    """
    known = uuid.UUID(parent)
    digest = hashlib.sha256(f"{known}\n{step}\n{index}".encode()).digest()
    hashed = int.from_bytes(digest[:16], "big")
    fields = (known.int >> 80) << 80 | 7 << 76 | 2 << 62
    return str(uuid.UUID(int=fields | hashed & ~((((1 << 48) - 1) << 80) | 0xF << 76 | 3 << 62)))
