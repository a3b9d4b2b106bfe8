"""The attempt of a plain function, which has a thread of its own: whatever it asks for, it waits for the answer."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any, Iterable, List, Optional, Sequence, Set, Tuple, Union

import grpc

from . import _calls, _socket
from ._attempt import BaseAttempt, Child, Detach, Input, Lease, NotSupported, Stopped, Until, lease_of, used
from ._jobs import Enqueued, NewJob, PayloadLike
from ._times import Seconds, seconds
from .errors import TenureError, Unavailable, refusal_of
from .node.v1 import attempt_service_pb2 as words
from .node.v1 import worker_service_pb2 as wire
from .node.v1.attempt_service_pb2_grpc import AttemptServiceStub

__all__ = ["Attempt"]


class Attempt(BaseAttempt):
    """One attempt of a job, as a plain function sees it. Threads of the function may share it, until it returns.

    What it says of itself goes to the node agent at once. A function that has to stop may still say something; what waits for
    others raises ``Stopped`` then.
    """

    def __init__(self, work: wire.Work, before: Sequence[wire.WorkInputs] = ()) -> None:
        super().__init__(work, before)
        self._lock = threading.Lock()
        self._channel: Optional[grpc.Channel] = None
        self._address: Optional[_socket.Address] = None
        # What waits for the server, and is given up for an order to stop.
        self._asking: Set[grpc.Future] = set()
        self._over = False

    def sleep(self, how_long: Seconds) -> None:
        """Sleeps, and raises what ``check`` raises, as soon as it would."""
        self.check()
        if self._woken.wait(seconds(how_long)):
            self.check()

    def progress(self, percent: int, message: str = "") -> None:
        """Says how it gets on, as ``Job`` and ``tenure job get`` show it: about once a second, and the newest counts.

        :param percent: 0 to 100.
        :param message: for people, at most 1,024 bytes.
        :raises Refusal: if that is no progress.
        """
        self._ask("ReportProgress", _socket.progress(percent, message))

    def use(self, **counters: int) -> None:
        """Adds to what the attempt has used, such as ``use(tokens=1234)``: its kind's budget is charged with it, however the
        attempt ends. At most 16 counters ([a-z0-9._-], at most 63), each at most 2^53.

        :raises Refusal: if one is none, or too much; nothing was added.
        """
        if not self.socket:
            return self._spent(used(counters))
        self._ask("ReportUsage", _socket.usage(used(counters)))

    def save_checkpoint(self, data: PayloadLike) -> None:
        """Keeps this, in the place of what was saved before, for the attempt that follows if this one fails: that finds it in
        ``checkpoint``.

        :param data: 1 byte to 256 KiB: bytes, text, or anything that ``json.dumps`` takes.
        :raises Refusal: if it is none of that.
        """
        self._ask("SaveCheckpoint", _socket.checkpoint(data))

    def enqueue(
        self, job: Union[NewJob, str], payload: PayloadLike = None, *, step: str = "", **fields: Any
    ) -> Enqueued:
        """Enqueues a child of this job.

        :param job: a ``NewJob``, or a kind: then ``payload`` and all other fields of ``NewJob`` follow.
        :param step: what the job does here: an attempt that comes after another and names the same step finds the child that
            is there, instead of a new one. Each call of a job has a step of its own.
        :raises Refusal: a no; nothing was stored.
        :raises Unavailable: what became of it is not known. The same step is the same child.
        :raises Stopped: if it is to stop.
        """
        (answer,) = self.enqueue_batch([_calls.new_job(job, payload, fields)], step=step)
        if isinstance(answer, TenureError):
            raise answer
        return answer

    def enqueue_batch(self, jobs: Iterable[NewJob], *, step: str = "") -> List[Union[Enqueued, TenureError]]:
        """Enqueues many children, in as few messages as fit the wire: one answer for each, in their order. ``step`` is as in
        ``enqueue``.

        :raises Refusal: if the lease is lost, say; :raises Unavailable: if the server stays away; :raises Stopped: if it is to
            stop. Messages before that were stored.
        """
        answers: List[Union[Enqueued, TenureError]] = []
        for batch, request in _socket.children(self._children(jobs, step)):
            answer = self._ask("EnqueueChildren", request, asks=True)
            # Its ids are made already: it is the same call, however often it was sent.
            answers += _calls.batch_answers(answer.items, batch, True)
        return answers

    def wait(
        self,
        children: Sequence[Child],
        *,
        until: Until = Until.ALL,
        at_least: Optional[int] = None,
        max_wait: Optional[Seconds] = None,
        state: PayloadLike = None,
    ) -> Tuple[Input, ...]:
        """Waits for children: how they ended, in this order. Meanwhile the job holds what its kind keeps only, and its time limits
        stand still.

        :param state: with which it comes back if it may not stay; the rest is as in ``Detach``.
        :raises Detach: if it may not stay. Not caught, the job comes back as another execution once its wait is over; children of
            a ``step`` are found there, and the same wait is over at once, as is one for the same children that their ends meet.
            Of several waits for the same children at most one should have a ``max_wait``: the first counts as the one it ended.
        :raises Refusal: if that cannot be waited for.
        :raises Stopped: if it is to stop.
        """
        detach = Detach(children, until=until, at_least=at_least, max_wait=max_wait, state=state)
        if (waited := self._waited(detach.terms)) is not None:
            return waited
        request = _socket.wait(detach, str(uuid.uuid4()))
        if _socket.may_not_stay(self._ask("WaitForJobs", request, asks=True, for_ever=True)):
            raise detach
        return self.results(children)

    def results(self, children: Sequence[Child]) -> Tuple[Input, ...]:
        """How children stand, in this order.

        :raises Refusal: if one is none of this job. :raises Stopped: if it is to stop.
        """
        ends = _socket.Ends(children)
        while (request := ends.next()) is not None:
            ends.take(self._ask("GetChildResults", request, asks=True))
        return tuple(ends.ends)

    def check_lease(self) -> Lease:
        """Whether its lease lives, as far as this node knows: to be asked before an effect that must not be made twice."""
        return lease_of(self._ask("CheckLease", words.CheckLeaseRequest()))

    def _ask(
        self, rpc: str, request: Any, *, asks: bool = False, for_ever: bool = False
    ) -> Any:
        """``asks``: the server is asked for it, which may be away; an order to stop interrupts that."""
        begun, tries = time.monotonic(), 0
        while True:
            if asks and self.stopping:
                raise Stopped(self.stop_reason)
            timeout = None if for_ever else _socket.ASKING_S if asks else _socket.LOCAL_S
            call = getattr(self._open(), rpc).future(request, timeout=timeout)
            if asks:
                self._interrupt(call)
            tries += 1
            try:
                return call.result()
            except grpc.FutureCancelledError as error:
                raise Stopped(self.stop_reason) from error
            except grpc.RpcError as error:
                if asks and self.stopping:
                    raise Stopped(self.stop_reason) from error
                refusal = refusal_of(error)
                if refusal.code != grpc.StatusCode.UNAVAILABLE:
                    raise refusal from error
                waited = time.monotonic() - begun
                pause = _socket.again(refusal, waited, None if for_ever else _socket.PATIENCE_S)
                if pause is None:
                    raise Unavailable(self.socket, tries, waited, refusal) from error
            finally:
                with self._lock:
                    self._asking.discard(call)
            self._stop.wait(pause)

    def _interrupt(self, call: grpc.Future) -> None:
        with self._lock:
            self._asking.add(call)
        # Told to stop in between, nobody else cancels it.
        if self.stopping:
            call.cancel()

    def _open(self) -> Any:
        if not self.socket:
            raise NotSupported("the agent of this node is too old: an attempt in a worker cannot speak to it")
        with self._lock:
            if self._over:
                raise TenureError("the attempt has ended")
            if self._channel is None:
                self._address = _socket.Address(self.socket)
                self._channel = grpc.insecure_channel(self._address.target, _socket.CHANNEL_OPTIONS)
            return AttemptServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def _told(self, reason: str) -> bool:
        if not super()._told(reason):
            return False
        with self._lock:
            calls = list(self._asking)
        for call in calls:
            call.cancel()
        return True

    def _close(self) -> None:
        """Its function has ended: nothing is said any more."""
        with self._lock:
            channel, address = self._channel, self._address
            self._over, self._channel, self._address = True, None, None
        if channel is not None:
            channel.close()
        if address is not None:
            address.close()
