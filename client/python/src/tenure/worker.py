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
from dataclasses import dataclass
from types import FrameType
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

import grpc

from ._jobs import BYTES, JobState, _state, encode
from ._times import Seconds, duration, length, seconds
from .errors import EndpointError, TenureError
from .node.v1 import node_service_pb2 as node_wire
from .node.v1 import worker_service_pb2 as wire
from .node.v1.worker_service_pb2_grpc import WorkerServiceStub

__all__ = ["Attempt", "Input", "JobFailed", "Permanent", "Retry", "SoftLimit", "Stopped", "Worker"]

_log = logging.getLogger("tenure.worker")

#: A function that runs attempts.
Handler = Callable[["Attempt"], Union[Any, Awaitable[Any]]]

_PERMANENT: Tuple[Type[BaseException], ...] = (ValueError, TypeError, KeyError)
_RECONNECT_S = (0.1, 5.0)
#: The process ends itself so long before an attempt must be gone.
_LAST_S = 1.0
_EXIT_LATE = 70
_CHANNEL_OPTIONS: List[Tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    # A path is no authority.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    # Two workers of one process have two connections.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "tenure-python-worker"),
]


class JobFailed(TenureError):
    """Raised by a function of a job: the attempt has failed, in these words."""

    permanent = False

    def __init__(
        self,
        reason: str,
        *,
        retry_after: Optional[Seconds] = None,
        throttled: str = "",
    ) -> None:
        """
        :param reason: for people; never payload.
        :param retry_after: not tried again before this long.
        :param throttled: a fleet slot of the job whose provider wants no more for ``retry_after``: until then nothing that
            needs it starts, in the whole fleet.
        """
        super().__init__(reason)
        self.retry_after = retry_after
        self.throttled = throttled


class Retry(JobFailed):
    """Another attempt may help."""


class Permanent(JobFailed):
    """No further attempt would help: the job is dead at once."""

    permanent = True


class SoftLimit(TenureError):
    """Raised once inside an attempt that ran into its soft time limit, by ``Attempt.check`` and ``Attempt.sleep``: what the
    function returns from now on is a partial result. One that does not catch it has timed out."""


class Stopped(BaseException):
    """Raised inside an attempt that is to stop, by ``Attempt.check``; ``asyncio`` functions are cancelled instead.

    It is no ``Exception``, so that what catches those does not catch it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: ``cancelled``, ``time_limit``, ``drained`` or ``lease_lost``.
        self.reason = reason


@dataclass
class _Registered:
    handler: Handler
    retry_on: Tuple[Type[BaseException], ...]
    permanent: Tuple[Type[BaseException], ...]
    is_async: bool


@dataclass(frozen=True)
class Input:
    """How another job ended, for one that goes on from there."""

    #: Its place in the order in which they were named or declared, from 0.
    index: int
    #: Which job.
    job_id: str
    #: How it ended. One that is not final: it had not ended when the wait was over. ``UNKNOWN``: there is no such job.
    state: JobState
    #: What it wrote. None: it wrote nothing, or did not succeed.
    data: Optional[bytes]
    #: The media type of that.
    content_type: str
    #: Why there is no result, for people; empty: none is missing.
    error: str

    def text(self) -> str:
        """What it wrote, as UTF-8.

        :raises ValueError: if it wrote nothing.
        """
        if self.data is None:
            raise ValueError(f"the job {self.job_id} left no result: {self.error or self.state.value}")
        return self.data.decode()

    def json(self) -> Any:
        """What it wrote, as JSON.

        :raises ValueError: if it wrote nothing, or something else.
        """
        return json.loads(self.text())


class Attempt:
    """One attempt of a job, as its function sees it."""

    def __init__(self, work: wire.Work, worker: "Worker", before: Sequence[wire.WorkInputs] = ()) -> None:
        self._worker = worker
        self._stop = threading.Event()
        self._soft = False
        self._soft_raised = False
        # Either of them happened.
        self._woken = threading.Event()
        self._reason = ""
        self._usage: Dict[str, int] = {}
        self._task: "Optional[asyncio.Task[Any]]" = None
        #: The job.
        self.job_id = work.job_id
        #: The fencing token of this execution: hand it to what must not be written twice.
        self.token = work.token
        #: The kind.
        self.kind = work.kind
        #: 1-based.
        self.attempt = work.attempt
        #: Whose work it is.
        self.tenant = work.tenant
        #: The input.
        self.payload = work.payload
        #: Its media type; empty: none was given.
        self.content_type = work.content_type
        #: The dedupe key of the job, or its id: the same for each of its attempts.
        self.idempotency_key = work.idempotency_key
        #: Empty: it has no parent.
        self.parent_id = work.parent_id
        #: W3C trace context; empty: none.
        self.traceparent = work.traceparent
        self.tracestate = work.tracestate
        #: Seconds after which it is told to stop.
        self.hard_time_limit = length(work.hard_time_limit)
        #: Seconds after which it is asked to wrap up. None: never.
        self.soft_time_limit = length(work.soft_time_limit) if work.HasField("soft_time_limit") else None
        #: What an earlier attempt of the job saved for this one to go on from. Empty: nothing.
        self.checkpoint = work.checkpoint
        #: The partial result of an earlier attempt. Empty: none.
        self.partial = work.partial
        #: Whether it goes on from something: from the ends of jobs that came before it in a workflow, or of its children,
        #: with what its execution before left when it detached.
        self.resumed = work.HasField("input_results")
        #: How those jobs ended, in the order in which they were named or declared. Empty: it waited for nobody.
        self.inputs: Tuple[Input, ...] = tuple(_input(told) for part in before for told in part.results)
        #: What its execution before left when it detached. None: nothing.
        self.state: Optional[bytes] = next((part.state.data for part in before if part.HasField("state")), None)
        #: The numbers of its units of slots that have numbers, such as those of its GPUs.
        self.indexes: Mapping[str, Tuple[int, ...]] = {
            slot: tuple(int(number) for number in numbers.split(",")) for slot, numbers in work.indexes.items()
        }

    def text(self) -> str:
        """The payload as UTF-8."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON. One that is none fails the job for good, unless the function says otherwise."""
        return json.loads(self.payload)

    def use(self, **counters: int) -> None:
        """Adds to what the attempt has used, such as ``use(tokens=1234)``: its kind's budget is charged with it."""
        for counter, amount in counters.items():
            if amount < 0:
                raise ValueError(f"{counter} cannot shrink by {-amount}")
            self._usage[counter] = self._usage.get(counter, 0) + amount

    @property
    def stopping(self) -> bool:
        """Whether it is to stop."""
        return self._stop.is_set()

    @property
    def stop_reason(self) -> str:
        """Why: ``cancelled``, ``time_limit``, ``drained`` or ``lease_lost``; empty while it is not to stop."""
        return self._reason

    @property
    def wrapping_up(self) -> bool:
        """Whether it ran into its soft time limit: what it returns from now on is a partial result."""
        return self._soft

    def check(self) -> None:
        """Raises ``Stopped`` if the attempt is to stop, and ``SoftLimit``, once, if it is to wrap up. For functions with
        threads, often: there is no other way to stop them but to kill the worker."""
        if self._stop.is_set():
            raise Stopped(self._reason)
        if self._soft and not self._soft_raised:
            self._soft_raised = True
            self._woken.clear()
            if self._stop.is_set():
                self._woken.set()
            raise SoftLimit(f"the soft time limit of {self.soft_time_limit or 0.0:g} s is over")

    def sleep(self, how_long: Seconds) -> None:
        """Sleeps, and raises what ``check`` raises, as soon as it would."""
        self.check()
        if self._woken.wait(seconds(how_long)):
            self.check()

    def _wrap_up(self) -> None:
        self._soft = True
        self._woken.set()

    def _told(self, reason: str) -> None:
        if self._stop.is_set():
            return
        self._reason = reason
        self._stop.set()
        self._woken.set()
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel, reason)


def _input(told: node_wire.InputResult) -> Input:
    result = told.result if told.HasField("result") else None
    return Input(
        index=told.index,
        job_id=told.job_id,
        state=_state(told.state),
        data=None if result is None else result.data,
        content_type="" if result is None else result.content_type,
        error=told.error,
    )


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
        :param concurrency: how many attempts run at once. One that does not stop is ended by killing the process, with all
            others in it: ``1`` for functions that may hang.
        :raises EndpointError: if nobody names a socket.
        """
        if not 1 <= concurrency <= 1_000:
            raise ValueError("concurrency must be 1 to 1000")
        self._socket = socket or os.environ.get("TENURE_WORKER_SOCKET", "")
        self._concurrency = concurrency
        self._jobs: Dict[str, _Registered] = {}
        self._lock = threading.Lock()
        self._attempts: Dict[int, Attempt] = {}
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
    ) -> Callable[[Handler], Handler]:
        """Registers the function that runs attempts of a kind. It takes an ``Attempt``; what it returns is the result: bytes,
        text, or anything that ``json.dumps`` takes; None: no result.

        :param retry_on: exceptions after which another attempt may help, though ``permanent`` has them, too.
        :param permanent: exceptions that no further attempt cures.
        """
        retried = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        final = permanent if isinstance(permanent, tuple) else (permanent,)

        def register(handler: Handler) -> Handler:
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
        threads = ThreadPoolExecutor(max_workers=self._concurrency, thread_name_prefix="tenure-job")
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

        with grpc.insecure_channel(f"unix:{self._socket}", _CHANNEL_OPTIONS) as channel:
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
        attempt = Attempt(work, self, self._before.pop(work.token, ()))
        with self._lock:
            self._attempts[attempt.token] = attempt
            self._deadlines[attempt.token] = work.gone_by_us
        registered = self._jobs.get(work.kind)

        def ended(end: wire.WorkEnded) -> None:
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
        if registered.is_async and self._loop is not None:
            asyncio.run_coroutine_threadsafe(_run_async(registered, attempt, ended), self._loop)
        else:
            threads.submit(context.run, _run, registered, attempt, ended)

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
        end = _succeeded(registered.handler(attempt))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is how the attempt ended
        end = _end_of(error, registered, attempt)
    ended(end)


async def _run_async(registered: _Registered, attempt: Attempt, ended: Callable[[wire.WorkEnded], None]) -> None:
    running = asyncio.ensure_future(_awaited(registered.handler, attempt))
    attempt._task = running
    if attempt.stopping:
        running.cancel(attempt.stop_reason)
    try:
        end = _succeeded(await running)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is how the attempt ended
        end = _end_of(error, registered, attempt)
    ended(end)


async def _awaited(handler: Handler, attempt: Attempt) -> Any:
    return await handler(attempt)


def _end_of(error: BaseException, registered: _Registered, attempt: Attempt) -> wire.WorkEnded:
    stopped = isinstance(error, (Stopped, asyncio.CancelledError, KeyboardInterrupt, SystemExit))
    if stopped and attempt.stopping or isinstance(error, SoftLimit):
        return wire.WorkEnded(stopped=wire.WorkStopped())
    _log.info("attempt %s of %s failed", attempt.attempt, attempt.job_id, exc_info=error)
    return _failed(error, _is_permanent(error, registered), error if isinstance(error, JobFailed) else None)


def _is_permanent(error: BaseException, registered: _Registered) -> bool:
    if isinstance(error, JobFailed):
        return error.permanent
    if isinstance(error, registered.retry_on):
        return False
    return isinstance(error, registered.permanent)


def _succeeded(result: Any) -> wire.WorkEnded:
    if result is None:
        return wire.WorkEnded(succeeded=wire.WorkSucceeded(content_type=BYTES))
    data, content_type = encode(result)
    return wire.WorkEnded(succeeded=wire.WorkSucceeded(has_result=True, data=data, content_type=content_type))


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
