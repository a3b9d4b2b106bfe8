"""Workers: run jobs inside a Python process that attaches to the node agent of its machine.

A worker is for short jobs and for what is expensive to load: a command of the node file starts a process for each attempt,
a worker is started once, by you or by whatever supervises services on your machine.

>>> worker = Worker()
>>> @worker.job("site.qa")
... def look(job):
...     return {"url": job.json()["url"], "fine": True}

What a function returns is the result; what it raises is the failure: ``ValueError``, ``TypeError`` and ``KeyError`` (and what
is derived from them, such as the validation errors of pydantic) are permanent, everything else is tried again.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import os
import queue
import signal
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from types import FrameType
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar, Union

import grpc

from . import _aio_attempt
from ._attempt import Detach, JobFailed, NotSupported, SoftLimit, Stopped
from ._jobs import BYTES, encode
from ._plain import Attempt
from ._socket import CHANNEL_OPTIONS, Address
from ._times import duration
from .errors import EndpointError, TenureError
from .node.v1 import worker_service_pb2 as wire
from .node.v1.worker_service_pb2_grpc import WorkerServiceStub

__all__ = ["Handler", "Worker"]

_log = logging.getLogger("tenure.worker")

#: A function that runs attempts: a plain one, or one with ``async def``.
Handler = Union[Callable[[Attempt], Any], Callable[[_aio_attempt.Attempt], Awaitable[Any]]]

_H = TypeVar("_H", bound=Handler)
_Any = Union[Attempt, _aio_attempt.Attempt]

_PERMANENT: Tuple[Type[BaseException], ...] = (ValueError, TypeError, KeyError)
_RECONNECT_S = (0.1, 5.0)
#: The process ends itself so long before an attempt must be gone.
_LAST_S = 1.0
_EXIT_LATE = 70
#: The most bytes of an end: the agent breaks with a worker whose message is larger than 1 MiB, and all its attempts are lost.
_MOST_END = 1_000_000
#: Functions that wait for other jobs keep their threads, and others run meanwhile: an agent gives a worker no more at once.
_MOST_THREADS = 1_000

@dataclass
class _Registered:
    handler: Callable[[Any], Any]
    retry_on: Tuple[Type[BaseException], ...]
    permanent: Tuple[Type[BaseException], ...]
    is_async: bool


_REASONS = {
    wire.STOP_WORK_REASON_CANCELLED: "cancelled",
    wire.STOP_WORK_REASON_TIME_LIMIT: "time_limit",
    wire.STOP_WORK_REASON_DRAINED: "drained",
    wire.STOP_WORK_REASON_LEASE_LOST: "lease_lost",
}

_CLOCKS = {
    wire.WORK_CLOCK_BOOTTIME: getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC),
    wire.WORK_CLOCK_MONOTONIC: time.CLOCK_MONOTONIC,
}


class Worker:
    """Runs attempts that the node agent of this machine hands to it, several at once.

    Functions with ``async def`` share one event loop, in a thread of its own; plain ones have a thread each.
    """

    def __init__(self, socket: Optional[str] = None, *, concurrency: int = 1) -> None:
        """
        :param socket: the agent's socket for the user of this process. None: what ``TENURE_WORKER_SOCKET`` says.
        :param concurrency: how many attempts run at once, without those that wait for their children. One that does not stop is ended by killing the process, with all
            others in it: ``1`` for functions that may hang.
        :raises EndpointError: if nobody names a socket.
        """
        if not 1 <= concurrency <= 1_000:
            raise ValueError("concurrency must be 1 to 1000")
        self._socket = socket or os.environ.get("TENURE_WORKER_SOCKET", "")
        self._concurrency = concurrency
        self._jobs: Dict[str, _Registered] = {}
        self._lock = threading.Lock()
        self._attempts: Dict[int, _Any] = {}
        self._deadlines: Dict[int, int] = {}
        # What attempts go on from whose work has not come yet, by token; of the thread that listens alone.
        self._before: Dict[int, List[wire.WorkInputs]] = {}
        self._clock = time.CLOCK_MONOTONIC
        self._idle = threading.Condition(self._lock)
        self._outbound: "Optional[queue.SimpleQueue[Optional[wire.WorkerMessage]]]" = None
        self._leaving = threading.Event()
        self._left = threading.Event()
        self._watchdog: Optional[threading.Thread] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def job(
        self,
        kind: str,
        *,
        retry_on: Union[Type[BaseException], Tuple[Type[BaseException], ...]] = (),
        permanent: Union[Type[BaseException], Tuple[Type[BaseException], ...]] = _PERMANENT,
    ) -> Callable[[_H], _H]:
        """Registers the function that runs attempts of a kind. A plain one takes a ``tenure.Attempt``, one with ``async def`` a
        ``tenure.aio.Attempt``; what it returns is the result: bytes, text, or anything that ``json.dumps`` takes; None: no
        result; a ``Detach``: the job waits, and comes back.

        :param retry_on: exceptions after which another attempt may help, though ``permanent`` has them, too.
        :param permanent: exceptions that no further attempt cures.
        """
        retried = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        final = permanent if isinstance(permanent, tuple) else (permanent,)

        def register(handler: _H) -> _H:
            if kind in self._jobs:
                raise ValueError(f"the kind {kind} has a function already")
            self._jobs[kind] = _Registered(handler, retried, final, inspect.iscoroutinefunction(handler))
            return handler

        return register

    def run(self) -> None:
        """Attaches, and runs attempts until ``stop`` is called. In the main thread, SIGTERM and SIGINT call it.

        While no agent is there it is tried again and again. If the stream to the agent breaks while attempts run, they are
        stopped at once, since nobody would say when they must be gone.

        :raises EndpointError: if nobody names a socket.
        :raises TenureError: if the agent refuses: a kind that is none of its worker kinds, say.
        """
        if not self._socket:
            raise EndpointError("no socket: name the agent's in TENURE_WORKER_SOCKET; its log says where it is")
        if not self._jobs:
            raise TenureError("there is no function to run: register one with @worker.job")
        restore = self._catch_signals()
        self._watchdog = threading.Thread(target=self._watch, name="tenure-watchdog", daemon=True)
        self._watchdog.start()
        if any(registered.is_async for registered in self._jobs.values()):
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="tenure-loop", daemon=True).start()
        threads = ThreadPoolExecutor(max_workers=_MOST_THREADS, thread_name_prefix="tenure-job")
        try:
            pause = _RECONNECT_S[0]
            while not self._leaving.is_set():
                if self._attach(threads):
                    pause = _RECONNECT_S[0]
                self._leaving.wait(pause)
                pause = min(pause * 2, _RECONNECT_S[1])
        finally:
            threads.shutdown(wait=False)
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
            restore()

    def stop(self) -> None:
        """Takes no more attempts; ``run`` returns once those that run have ended. From any thread."""
        self._leaving.set()
        outbound = self._outbound
        if outbound is not None:
            outbound.put(wire.WorkerMessage(leaving=wire.WorkerLeaving()))

    def _catch_signals(self) -> Callable[[], None]:
        if threading.current_thread() is not threading.main_thread():
            return lambda: None

        def caught(number: int, frame: Optional[FrameType]) -> None:
            # In a thread: a handler must not take a lock that the interrupted code may hold.
            threading.Thread(target=self.stop, daemon=True).start()

        before = {number: signal.signal(number, caught) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        return restore

    def _attach(self, threads: ThreadPoolExecutor) -> bool:
        """One stream, from its beginning to its end; whether it was welcomed."""
        outbound: "queue.SimpleQueue[Optional[wire.WorkerMessage]]" = queue.SimpleQueue()
        from . import __version__

        hello = wire.WorkerHello(
            kinds=sorted(self._jobs),
            concurrency=self._concurrency,
            library=f"tenure-python {__version__}",
            inputs=True,
            sockets=True,
        )
        self._before.clear()
        outbound.put(wire.WorkerMessage(hello=hello))
        self._left.clear()
        self._outbound = outbound
        if self._leaving.is_set():
            return False
        welcomed = False

        def said() -> Iterator[wire.WorkerMessage]:
            while (message := outbound.get()) is not None:
                yield message

        address = Address(self._socket)
        with closing(address), grpc.insecure_channel(address.target, CHANNEL_OPTIONS) as channel:
            stub = WorkerServiceStub(channel)  # type: ignore[no-untyped-call]
            stream = stub.Attach(said())
            threading.Thread(target=self._leave, args=(outbound,), name="tenure-leave", daemon=True).start()
            try:
                for message in stream:
                    welcomed = self._hear(message, outbound, threads) or welcomed
            except grpc.RpcError as error:
                self._complain(error, welcomed)
            finally:
                # Nobody says any more by when they must be gone.
                self._outbound = None
                outbound.put(None)
                self._left.set()
                self._stop_all("lease_lost")
                stream.cancel()
                self._wait_until_idle()
        return welcomed

    def _complain(self, error: grpc.RpcError, welcomed: bool) -> None:
        code, words = error.code(), error.details() or ""
        if self._leaving.is_set():
            return
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION):
            raise TenureError(f"the agent does not take this worker: {words}") from error
        _log.warning("the agent at %s is not there (%s %s); trying again", self._socket, code.name, words)

    def _leave(self, outbound: "queue.SimpleQueue[Optional[wire.WorkerMessage]]") -> None:
        """Closes the stream once the agent has said that no attempt follows and none runs."""
        self._left.wait()
        self._wait_until_idle()
        outbound.put(None)

    def _wait_until_idle(self) -> None:
        with self._idle:
            self._idle.wait_for(lambda: not self._attempts)

    def _stop_all(self, reason: str) -> None:
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt._told(reason)

    def _hear(
        self,
        message: wire.WorkMessage,
        outbound: "queue.SimpleQueue[Optional[wire.WorkerMessage]]",
        threads: ThreadPoolExecutor,
    ) -> bool:
        which = message.WhichOneof("body")
        if which == "welcome":
            self._clock = _CLOCKS.get(message.welcome.clock, time.CLOCK_MONOTONIC)
            _log.info("attached to the agent of %s, for %s", message.welcome.node, ", ".join(sorted(self._jobs)))
            if self._leaving.is_set():
                outbound.put(wire.WorkerMessage(leaving=wire.WorkerLeaving()))
            return True
        if which == "work":
            self._begin(message.work, outbound, threads)
        elif which == "inputs":
            self._before.setdefault(message.inputs.token, []).append(message.inputs)
        elif which == "deadline":
            with self._lock:
                if message.deadline.token in self._deadlines:
                    self._deadlines[message.deadline.token] = message.deadline.gone_by_us
        elif which == "stop":
            # Its work will not come, if it has not.
            self._before.pop(message.stop.token, None)
            with self._lock:
                attempt = self._attempts.get(message.stop.token)
            if attempt is not None:
                attempt._told(_REASONS.get(message.stop.reason, "lease_lost"))
        elif which == "wrap_up":
            with self._lock:
                attempt = self._attempts.get(message.wrap_up.token)
            if attempt is not None:
                attempt._wrap_up()
        elif which == "left":
            self._left.set()
        return False

    def _begin(
        self,
        work: wire.Work,
        outbound: "queue.SimpleQueue[Optional[wire.WorkerMessage]]",
        threads: ThreadPoolExecutor,
    ) -> None:
        before = self._before.pop(work.token, ())
        registered = self._jobs.get(work.kind)
        runs_in_loop = registered is not None and registered.is_async and self._loop is not None
        attempt: _Any = _aio_attempt.Attempt(work, before) if runs_in_loop else Attempt(work, before)
        with self._lock:
            self._attempts[attempt.token] = attempt
            self._deadlines[attempt.token] = work.gone_by_us

        def ended(end: wire.WorkEnded) -> None:
            end = _fitting(end)
            end.token = attempt.token
            for counter, amount in attempt._usage.items():
                end.usage[counter] = amount
            with self._idle:
                self._attempts.pop(attempt.token, None)
                self._deadlines.pop(attempt.token, None)
                # Said before anybody learns that it is idle: the stream is closed after it.
                outbound.put(wire.WorkerMessage(ended=end))
                self._idle.notify_all()

        if registered is None:
            return ended(_failed(TenureError(f"this worker does not run {work.kind}"), False, None))
        context = contextvars.copy_context()
        if isinstance(attempt, Attempt):
            threads.submit(context.run, _run, registered, attempt, ended)
        elif self._loop is not None:
            asyncio.run_coroutine_threadsafe(_run_async(registered, attempt, ended), self._loop)

    def _watch(self) -> None:
        """Ends the process before an attempt must be gone that has not ended, whatever holds up the other threads."""
        while True:
            time.sleep(0.2)
            now = time.clock_gettime_ns(self._clock) // 1_000
            with self._lock:
                late = [token for token, by in self._deadlines.items() if now >= by - int(_LAST_S * 1e6)]
            if late:
                _log.critical("the attempt %s did not stop in time; this process ends", late[0])
                os._exit(_EXIT_LATE)


def _run(registered: _Registered, attempt: Attempt, ended: Callable[[wire.WorkEnded], None]) -> None:
    try:
        attempt.check()
        end = _succeeded(registered.handler(attempt), attempt)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is how the attempt ended
        end = _end_of(error, registered, attempt)
    attempt._close()
    ended(end)


async def _run_async(
    registered: _Registered, attempt: _aio_attempt.Attempt, ended: Callable[[wire.WorkEnded], None]
) -> None:
    running = asyncio.ensure_future(_awaited(registered, attempt))
    attempt._begin(running)
    try:
        end = _succeeded(await running, attempt)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is how the attempt ended
        end = _end_of(error, registered, attempt)
    try:
        await attempt._close()
    finally:
        ended(end)


async def _awaited(registered: _Registered, attempt: _aio_attempt.Attempt) -> Any:
    return await registered.handler(attempt)


def _end_of(error: BaseException, registered: _Registered, attempt: _Any) -> wire.WorkEnded:
    stopped = isinstance(error, (Stopped, asyncio.CancelledError, KeyboardInterrupt, SystemExit))
    if stopped and attempt.stopping or isinstance(error, SoftLimit):
        return wire.WorkEnded(stopped=wire.WorkStopped())
    if isinstance(error, Detach):
        return _detached(error, attempt)
    _log.info("attempt %s of %s failed", attempt.attempt, attempt.job_id, exc_info=error)
    return _failed(error, _is_permanent(error, registered), error if isinstance(error, JobFailed) else None)


def _detached(detach: Detach, attempt: _Any) -> wire.WorkEnded:
    if attempt.socket:
        return detach._wire()
    error = NotSupported("the agent of this node is too old: an attempt in a worker cannot wait for others")
    return _failed(error, False, None)


def _is_permanent(error: BaseException, registered: _Registered) -> bool:
    if isinstance(error, JobFailed):
        return error.permanent
    if isinstance(error, registered.retry_on):
        return False
    return isinstance(error, registered.permanent)


def _succeeded(result: Any, attempt: _Any) -> wire.WorkEnded:
    if isinstance(result, Detach):
        return _detached(result, attempt)
    if result is None:
        return wire.WorkEnded(succeeded=wire.WorkSucceeded(content_type=BYTES))
    data, content_type = encode(result)
    return wire.WorkEnded(succeeded=wire.WorkSucceeded(has_result=True, data=data, content_type=content_type))


def _fitting(end: wire.WorkEnded) -> wire.WorkEnded:
    """The end, or what becomes of one that the agent would not take: another attempt would leave as much."""
    size = end.ByteSize()
    if size <= _MOST_END:
        return end
    words = f"what it leaves is too large for a worker: its end has {size} bytes, at most {_MOST_END} are allowed"
    return wire.WorkEnded(failed=wire.WorkFailed(permanent=True, error=words))


def _failed(error: BaseException, permanent: bool, words: Optional[JobFailed]) -> wire.WorkEnded:
    failed = wire.WorkFailed(permanent=permanent, error=_words(error))
    if words is not None:
        failed.throttled_slot = words.throttled
        if words.retry_after is not None:
            failed.retry_after.CopyFrom(duration(words.retry_after))
    return wire.WorkEnded(failed=failed)


def _words(error: BaseException) -> str:
    if isinstance(error, JobFailed):
        text = str(error)
    else:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return text.encode()[:4_096].decode(errors="ignore")
