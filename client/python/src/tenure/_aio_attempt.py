"""The attempt of an ``async`` function, which shares an event loop with others: what it asks for is awaited."""

from __future__ import annotations

import asyncio
import time
import uuid
from types import TracebackType
from typing import Any, Iterable, List, Optional, Sequence, Set, Tuple, Type, Union

import grpc
import grpc.aio

from . import _calls, _socket
from ._attempt import BaseAttempt, Child, Detach, Input, Lease, NotSupported, Until, lease_of, used
from ._jobs import Enqueued, NewJob, PayloadLike
from ._times import Seconds
from .errors import TenureError, Unavailable, refusal_of
from .node.v1 import attempt_service_pb2 as words
from .node.v1 import worker_service_pb2 as wire
from .node.v1.attempt_service_pb2_grpc import AttemptServiceStub

__all__ = ["Attempt"]


class Attempt(BaseAttempt):
    """One attempt of a job, as an ``async`` function sees it: ``tenure.Attempt``, with ``await``.

    A function that is to stop is cancelled; until its ``grace`` is over it may still say something.
    """

    def __init__(self, work: wire.Work, before: Sequence[wire.WorkInputs] = ()) -> None:
        super().__init__(work, before)
        self._task: "Optional[asyncio.Task[Any]]" = None
        self._channel: Optional[grpc.aio.Channel] = None
        self._address: Optional[_socket.Address] = None
        # Who wants to be interrupted at the soft limit; of the loop alone.
        self._soft_limits: "Set[_SoftLimit]" = set()

    def soft_limit(self) -> "_SoftLimit":
        """A block that ends with ``SoftLimit`` at an ``await``, once its attempt runs into its soft time limit:

        >>> async def read(job):
        ...     found = []
        ...     try:
        ...         async with job.soft_limit():
        ...             for source in job.json():
        ...                 found.append(await fetch(source))
        ...     except tenure.SoftLimit:
        ...         pass  # what there is by now is a partial result
        ...     return found
        """
        return _SoftLimit(self)

    async def progress(self, percent: int, message: str = "") -> None:
        """Says how it gets on, as ``Job`` and ``tenure job get`` show it: about once a second, and the newest counts.

        :param percent: 0 to 100.
        :param message: for people, at most 1,024 bytes.
        :raises Refusal: if that is no progress.
        """
        await self._ask("ReportProgress", _socket.progress(percent, message))

    async def use(self, **counters: int) -> None:
        """Adds to what the attempt has used, such as ``use(tokens=1234)``: its kind's budget is charged with it, however the
        attempt ends. At most 16 counters ([a-z0-9._-], at most 63), each at most 2^53.

        :raises Refusal: if one is none, or too much; nothing was added.
        """
        if not self.socket:
            return self._spent(used(counters))
        await self._ask("ReportUsage", _socket.usage(used(counters)))

    async def save_checkpoint(self, data: PayloadLike) -> None:
        """Keeps this, in the place of what was saved before, for the attempt that follows if this one fails: that finds it in
        ``checkpoint``.

        :param data: 1 byte to 256 KiB: bytes, text, or anything that ``json.dumps`` takes.
        :raises Refusal: if it is none of that.
        """
        await self._ask("SaveCheckpoint", _socket.checkpoint(data))

    async def enqueue(
        self, job: Union[NewJob, str], payload: PayloadLike = None, *, step: str = "", **fields: Any
    ) -> Enqueued:
        """Enqueues a child of this job, as ``tenure.Attempt.enqueue``.

        :raises Refusal: a no; nothing was stored.
        :raises Unavailable: what became of it is not known. The same step is the same child.
        """
        (answer,) = await self.enqueue_batch([_calls.new_job(job, payload, fields)], step=step)
        if isinstance(answer, TenureError):
            raise answer
        return answer

    async def enqueue_batch(self, jobs: Iterable[NewJob], *, step: str = "") -> List[Union[Enqueued, TenureError]]:
        """Enqueues many children, in as few messages as fit the wire: one answer for each, in their order. ``step`` is as in
        ``enqueue``.

        :raises Refusal: if the lease is lost, say; :raises Unavailable: if the server stays away. Messages before that were
            stored.
        """
        answers: List[Union[Enqueued, TenureError]] = []
        for batch, request in _socket.children(self._children(jobs, step)):
            answer = await self._ask("EnqueueChildren", request, asks=True)
            # Its ids are made already: it is the same call, however often it was sent.
            answers += _calls.batch_answers(answer.items, batch, True)
        return answers

    async def wait(
        self,
        children: Sequence[Child],
        *,
        until: Until = Until.ALL,
        at_least: Optional[int] = None,
        max_wait: Optional[Seconds] = None,
        state: PayloadLike = None,
    ) -> Tuple[Input, ...]:
        """Waits for children: how they ended, in this order, as ``tenure.Attempt.wait``.

        :raises Detach: if it may not stay. Not caught, the job comes back as another execution once its wait is over; children of
            a ``step`` are found there, and the same wait is over at once, as is one for the same children that their ends meet.
            Of several waits for the same children at most one should have a ``max_wait``: the first counts as the one it ended.
        :raises Refusal: if that cannot be waited for.
        """
        detach = Detach(children, until=until, at_least=at_least, max_wait=max_wait, state=state)
        if (waited := self._waited(detach.terms)) is not None:
            return waited
        request = _socket.wait(detach, str(uuid.uuid4()))
        if _socket.may_not_stay(await self._ask("WaitForJobs", request, asks=True, for_ever=True)):
            raise detach
        return await self.results(children)

    async def results(self, children: Sequence[Child]) -> Tuple[Input, ...]:
        """How children stand, in this order.

        :raises Refusal: if one is none of this job.
        """
        ends = _socket.Ends(children)
        while (request := ends.next()) is not None:
            ends.take(await self._ask("GetChildResults", request, asks=True))
        return tuple(ends.ends)

    async def check_lease(self) -> Lease:
        """Whether its lease lives, as far as this node knows: to be asked before an effect that must not be made twice."""
        return lease_of(await self._ask("CheckLease", words.CheckLeaseRequest()))

    async def _ask(
        self, rpc: str, request: Any, *, asks: bool = False, for_ever: bool = False
    ) -> Any:
        """``asks``: the server is asked for it, which may be away."""
        begun, tries = time.monotonic(), 0
        while True:
            timeout = None if for_ever else _socket.ASKING_S if asks else _socket.LOCAL_S
            tries += 1
            try:
                return await getattr(self._open(), rpc)(request, timeout=timeout)
            except grpc.RpcError as error:
                refusal = refusal_of(error)
                if refusal.code != grpc.StatusCode.UNAVAILABLE:
                    raise refusal from error
                waited = time.monotonic() - begun
                pause = _socket.again(refusal, waited, None if for_ever else _socket.PATIENCE_S)
                if pause is None:
                    raise Unavailable(self.socket, tries, waited, refusal) from error
            await asyncio.sleep(pause)

    def _open(self) -> Any:
        if not self.socket:
            raise NotSupported("the agent of this node is too old: an attempt in a worker cannot speak to it")
        if self._channel is None:
            self._address = _socket.Address(self.socket)
            self._channel = grpc.aio.insecure_channel(self._address.target, _socket.CHANNEL_OPTIONS)
        return AttemptServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def _begin(self, task: "asyncio.Task[Any]") -> None:
        """Its function runs in this task, in the running loop."""
        self._task = task
        if self.stopping:
            task.cancel(self.stop_reason)

    def _told(self, reason: str) -> bool:
        if not super()._told(reason):
            return False
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel, reason)
        return True

    def _wrap_up(self) -> None:
        super()._wrap_up()
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        for block in list(self._soft_limits):
            block._fire()

    async def _close(self) -> None:
        """Its function has ended."""
        channel, address = self._channel, self._address
        self._channel = self._address = None
        if channel is not None:
            await channel.close()
        if address is not None:
            address.close()


class _SoftLimit:
    """See ``Attempt.soft_limit``. Like ``asyncio.timeout`` it cancels the task of the block, and makes an exception of that at
    the end of the block."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._task: "Optional[asyncio.Task[Any]]" = None
        self._fired = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        self._attempt._soft_limits.add(self)
        # Once: who was told already knows.
        if self._attempt.wrapping_up and not self._attempt._soft_raised:
            asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        entered = self in self._attempt._soft_limits
        if self._task is not None and entered and not self._fired and not self._attempt._soft_raised:
            self._fired = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._attempt._soft_limits.discard(self)
        if not self._fired or self._task is None:
            return
        # Since 3.11 a task counts who wants it to end.
        uncancel = getattr(self._task, "uncancel", None)
        if uncancel is not None:
            uncancel()
        if isinstance(error, asyncio.CancelledError) and not self._attempt.stopping:
            raise self._attempt._soft_limit() from error
