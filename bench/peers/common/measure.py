"""The same measures for every peer of Python.

A peer is driven by callers: threads, since most of these libraries block. Its jobs end in other processes, and say so to
Redis or to Postgres, whichever the peer has anyway; all read the same clock of the host.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable

SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
DRAIN = int(os.environ.get("BENCH_DRAIN", "50000"))
RATE = int(os.environ.get("BENCH_RATE", "50"))
TEXT = "x" * int(os.environ.get("BENCH_PAYLOAD", "100"))
CALLERS = 64
PATIENCE = 120.0
# Of a peer that ends a few hundred jobs a second: so many of a measurement, that it ends in time.
SLOW = 2000


def peer(name: str, about: str, fenced: bool = False) -> None:
    say({"peer": name, "about": about, "fenced": fenced})


def measured(measure: str, value: float) -> None:
    say({"measure": measure, "value": value})


def say(what: dict) -> None:
    print(json.dumps(what), flush=True)


def callers(count: int, each: int, call: Callable[[], None], jobs: int | None = None, seconds: float = SECONDS):
    """Callers in a closed loop: how many jobs they stored, when they began, and how long it took. For so many jobs, or
    for so long."""
    lock = threading.Lock()
    left = [jobs]
    stored = [0]
    failed: list[BaseException] = []
    began = time.monotonic()

    def one() -> None:
        try:
            while not failed:
                with lock:
                    if left[0] is None:
                        if time.monotonic() - began >= seconds:
                            return
                    elif left[0] <= 0:
                        return
                    else:
                        left[0] -= each
                call()
                with lock:
                    stored[0] += each
        except BaseException as error:  # It is raised again below.
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return stored[0], began, time.monotonic() - began


def until(what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Looks until it holds."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > patience:
            sys.exit(f"not within {patience:.0f} s: {what}")
        time.sleep(0.002)


def timetable(call: Callable[[int], None], count: int, rate: float = RATE) -> None:
    """Calls so many times a second, each by a thread of its own, whatever became of the one before."""
    began = time.monotonic()
    threads = []
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        thread = threading.Thread(target=call, args=(number,))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def round_trip(lengths: list[float]) -> None:
    """Says the percentiles of lengths in seconds."""
    lengths = sorted(lengths)
    for measure, share in (("round_trip_p50", 0.5), ("round_trip_p99", 0.99)):
        measured(measure, lengths[max(0, math.ceil(len(lengths) * share) - 1)] * 1e3)


def run(
    *,
    enqueue: Callable[[dict], None],
    ended: Callable[[], int],
    ends: Callable[[], dict[str, float]],
    clear: Callable[[], None],
    start: Callable[[], Callable[[], None]],
    enqueue_many: Callable[[list[dict]], None] | None = None,
) -> None:
    """All measures of one peer. `ended` counts jobs that ended, `ends` says when those ended that have a name, `start`
    starts the workers and returns what ends them."""

    def single() -> None:
        enqueue({"text": TEXT})

    def many(count: int) -> Callable[[], None]:
        def call() -> None:
            enqueue_many([{"text": TEXT}] * count)

        return call

    callers(CALLERS, 1, single, seconds=SECONDS / 4)
    jobs, _, took = callers(CALLERS, 1, single)
    measured("enqueue_single", jobs / took)
    if enqueue_many:
        jobs, _, took = callers(2, 1000, many(1000))
        measured("enqueue_batch", jobs / took)
    clear()

    waiting = min(DRAIN, SLOW)
    if enqueue_many:
        enqueue_many([{"text": TEXT}] * waiting)
    else:
        callers(CALLERS, 1, single, jobs=waiting)
    stop = start()
    try:
        # From the first end, and not from the start: an interpreter takes a second to begin.
        until("the first job ends", lambda: ended() > 0)
        began, before = time.monotonic(), ended()
        until("the drain ends", lambda: ended() >= waiting)
        speed = (waiting - before) / (time.monotonic() - began)
        if waiting > before:
            measured("drain", speed)
        whole = waiting

        def lifecycle(measure: str, count: int, each: int, call: Callable[[], None]) -> None:
            nonlocal whole
            jobs, began, _ = callers(count, each, call, jobs=waiting)
            whole += jobs
            until(f"{measure} ends", lambda: ended() >= whole)
            measured(measure, jobs / (time.monotonic() - began))

        lifecycle("lifecycle_single", CALLERS, 1, single)
        if enqueue_many:
            lifecycle("lifecycle_batch", 2, 500, many(500))

        began_at: dict[str, float] = {}

        def timed(number: int) -> None:
            began_at[str(number)] = time.monotonic()
            enqueue({"text": TEXT, "name": str(number)})

        # Slow enough that no job waits for another.
        rate = max(1.0, min(RATE, speed * 0.3))
        count = max(20, int(rate * SECONDS))
        timetable(timed, count, rate)
        until("the round trips end", lambda: ended() >= whole + count)
        over = ends()
        round_trip([over[name] - began for name, began in began_at.items()])
    finally:
        stop()
