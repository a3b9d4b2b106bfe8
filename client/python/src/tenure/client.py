"""The client of producers and operators, for programs without an event loop. ``tenure.aio`` has the same for asyncio."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Any, Callable, Generator, Iterable, Iterator, List, Optional, Sequence, Type, Union

import grpc

from . import _calls, _once
from ._jobs import Enqueued, Job, JobState, NewJob, PayloadLike, Result
from ._once import Once
from ._servers import CHANNEL_OPTIONS, RetryPolicy, Tls, Tries, backoff, targets
from ._times import Seconds
from ._workflow_calls import Workflows
from .errors import NotDone, NotFound, Refusal, TenureError, Unavailable, UnexpectedAnswer, refusal_of
from .v1 import job_pb2
from .v1 import job_service_pb2 as wire

_log = logging.getLogger("tenure")


class Client:
    """A connection to a fleet of one or several servers. Threads may share it; a forked process needs one of its own.

    >>> client = Client("http://127.0.0.1:7070")
    >>> client.close()
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        *,
        tls: Optional[Tls] = None,
        retry: RetryPolicy = RetryPolicy(),
        insecure: bool = False,
    ) -> None:
        """Connects with the first call, and again whenever the connection is gone.

        :param endpoint: ``http://HOST:PORT`` or ``https://HOST:PORT``; several servers of one fleet between commas. None:
            what ``TENURE_SERVER`` says, else ``http://127.0.0.1:7070``.
        :param tls: for ``https://``: whom to believe, and who we are. None: what ``TENURE_TLS_CA``, ``TENURE_TLS_CERT`` and
            ``TENURE_TLS_KEY`` name.
        :param retry: how long, and how often, a call is tried again while the servers are UNAVAILABLE.
        :param insecure: speaks to other hosts without TLS, where everybody on the way can read and change what is said.
        :raises EndpointError: if an address is not one that may be spoken to.
        """
        tls = tls or Tls.from_environment()
        self._retry = retry
        found = targets(endpoint, tls, insecure)
        credentials = tls.credentials() if tls and any(target.secure for target in found) else None
        self._channels = [
            grpc.secure_channel(target.address, credentials, CHANNEL_OPTIONS)
            if target.secure
            else grpc.insecure_channel(target.address, CHANNEL_OPTIONS)
            for target in found
        ]
        self._stubs = [_calls.Stub(channel) for channel in self._channels]
        self._lock = threading.Lock()
        self._current = 0
        #: The addresses of the servers, between commas.
        self.endpoint = ",".join(target.address for target in found)
        #: Jobs behind and beside each other.
        self.workflows = Workflows(self)

    def close(self) -> None:
        """Closes the connections. Calls in flight end as ``Unavailable``."""
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def enqueue(self, job: Union[NewJob, str], payload: PayloadLike = None, **fields: Any) -> Enqueued:
        """Enqueues a job. Once this returns, the job survives a crash of the server.

        :param job: a ``NewJob``, or a kind: then ``payload`` and all other fields of ``NewJob`` follow.
        :raises Refusal: the server's no, with ``reason`` and ``retry_after``; nothing was stored.
        :raises Unavailable: what became of it is not known. Enqueue the same ``NewJob`` again; a kind is described anew,
            with another id.
        """
        sent = _calls.new_job(job, payload, fields)
        tries = self._tries()
        answer = self._call("Enqueue", wire.EnqueueRequest(job=sent.spec()), tries)
        return _calls.enqueued(answer, sent, tries.sent > 1)

    def enqueue_batch(self, jobs: Iterable[NewJob]) -> List[Union[Enqueued, TenureError]]:
        """Enqueues many jobs, in as few messages as fit the wire. One answer per job, in their order: one bad job never
        sinks the others.

        If the servers stay unavailable, every job of that message and of the messages after it gets that error; the same
        jobs may be sent again as they are.
        """
        everything = list(jobs)
        answers: List[Union[Enqueued, TenureError]] = []
        for batch in _calls.batches(everything):
            tries = self._tries()
            try:
                answer = self._call("EnqueueBatch", wire.EnqueueBatchRequest(jobs=[job.spec() for job in batch]), tries)
                answers += _calls.batch_answers(answer.items, batch, tries.sent > 1)
            except Unavailable as error:
                answers += [error] * (len(everything) - len(answers))
                break
            except (Refusal, UnexpectedAnswer) as refused:
                answers += [refused] * len(batch)
        return answers

    def get(self, job_id: str) -> Job:
        """One job as it stands.

        :raises JobNotFound: if there is none.
        """
        return Job.of(self._call("GetJob", wire.GetJobRequest(job_id=job_id)).job)

    def jobs(
        self,
        *,
        kind: str = "",
        states: Iterable[JobState] = (),
        tenant: str = "",
        dedupe_key: str = "",
        parent_id: str = "",
        node: str = "",
        workflow_id: str = "",
    ) -> Iterator[Job]:
        """Jobs, newest first, page by page. Filters are and-ed; an absent one matches everything."""
        request = _calls.list_request(kind, states, tenant, dedupe_key, parent_id, node, workflow_id)
        while True:
            answer = self._call("ListJobs", request)
            yield from map(Job.of, answer.jobs)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def wait(self, job_id: str, timeout: Optional[Seconds] = None) -> Job:
        """Waits until a job is final. Goes on through restarts of the servers, as far as the retry policy reaches.

        :param timeout: seconds or a ``timedelta``. None: for as long as it takes.
        :raises NotDone: if the timeout was first; it has the job as it stood, and is a ``TimeoutError``.
        """
        timeout_s = _calls.remaining(timeout)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            request, poll = _calls.wait_request(job_id, left)
            answer = self._call("WaitJob", request, self._tries(poll))
            job = Job.of(answer.job)
            if answer.done:
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise NotDone(job)

    def watch(self, job_id: str) -> Iterator[Job]:
        """The job as it stands, then after each change, until it is final.

        Level-triggered: each item is the whole job, and whoever reads slowly skips states in between, never the last. Goes
        on through restarts of the servers, as far as the retry policy reaches.
        """
        yield from self._follow("WatchJob", wire.WatchJobRequest(job_id=job_id), _calls.Watched())

    def _follow(self, rpc: str, request: Any, watched: Any) -> Iterator[Any]:
        """What ``watched`` takes of a stream, over restarts of the servers, until it is at its end."""
        broken: Optional[float] = None
        times = 0
        while not watched.at_end:
            place, stub = self._server()
            stream = getattr(stub, rpc)(request)
            try:
                for message in stream:
                    broken, times = None, 0
                    news = watched.take(message)
                    if news is not None:
                        yield news
                if not watched.at_end:
                    raise UnexpectedAnswer("a watch ended before the final state")
            except grpc.RpcError as error:
                refusal = refusal_of(error)
                if refusal.code != grpc.StatusCode.UNAVAILABLE:
                    raise refusal from error
                self._move_on(place)
                broken, times = broken or time.monotonic(), times + 1
                waited = time.monotonic() - broken
                pause = (refusal.retry_after or 0.0) + backoff(self._retry, times)
                if waited + pause >= self._retry.give_up_after:
                    raise Unavailable(self.endpoint, times, waited, refusal) from error
                time.sleep(pause)
            finally:
                stream.cancel()

    def result(self, job_id: str) -> Result:
        """The result of a succeeded job.

        :raises NotFound: if there is none, or not any more.
        :raises Refusal: with the reason ``RESULT_TOO_LARGE`` above 256 KiB: ``read_result`` has it.
        """
        return _calls.result_of(self._call("GetResult", wire.GetResultRequest(job_id=job_id)))

    def read_result(self, job_id: str) -> Iterator[bytes]:
        """The bytes of the result of a succeeded job, whatever its size, in pieces of at most 256 KiB. Their checksum is
        compared at the end: only a read that ends without an error is worth something.

        :raises NotFound: if there is none, or not any more.
        :raises Unavailable: if no server is to be reached before the first piece.
        :raises Refusal: if the connection breaks afterwards: read it from the beginning then.
        """
        reads = self._reads(job_id)
        try:
            for _, piece in reads:
                if piece:
                    yield piece
        finally:
            reads.close()

    def _reads(self, job_id: str) -> Generator["tuple[_calls.Reading, bytes]", None, None]:
        """One read: first its head, with no bytes, then its pieces."""
        began, times = time.monotonic(), 0
        while True:
            reading = _calls.Reading()
            place, stub = self._server()
            stream = stub.ReadResult(wire.ReadResultRequest(job_id=job_id))
            try:
                for message in stream:
                    yield reading, reading.take(message)
                reading.end()
                return
            except grpc.RpcError as error:
                refusal = refusal_of(error)
                if refusal.code != grpc.StatusCode.UNAVAILABLE or reading.begun:
                    raise refusal from error
                self._move_on(place)
                times += 1
                waited = time.monotonic() - began
                pause = (refusal.retry_after or 0.0) + backoff(self._retry, times)
                if waited + pause >= self._retry.give_up_after:
                    raise Unavailable(self.endpoint, times, waited, refusal) from error
                time.sleep(pause)
            finally:
                stream.cancel()

    def _left(self, job: Job) -> Result:
        """What a job left, whatever its size; read again if the connection breaks in the midst of it."""
        left = _once.Left(job)
        while True:
            begun: Optional[_calls.Reading] = None
            reads = self._reads(job.id)
            try:
                for reading, piece in reads:
                    if begun is None:
                        left.begins(begun := reading)
                    left.take(piece)
                if begun is None:
                    raise UnexpectedAnswer("a read of a result has no beginning")
                return left.result(begun)
            except Refusal as refused:
                if _once.is_older(refused):
                    return self.result(job.id)
                times = left.breaks(refused)
                pause = (refused.retry_after or 0.0) + backoff(self._retry, times)
            finally:
                reads.close()
            time.sleep(pause)

    def once(
        self, kind: str, key: str, payload: PayloadLike = None, *, timeout: Optional[Seconds] = None, **fields: Any
    ) -> Once:
        """Has a job done once for a key, and returns its answer: that of the run that this call begins, of the one that somebody
        else has begun, or the one that is kept. Callers at the same time, later ones, and one that was killed and asks again
        get the same answer of one job.

        The key answers for as long as the job is kept (``retention`` of its kind), and its answer for the kind's ``result_ttl``. A
        kind with ``dedupe = "live"`` lets go of a key when its job has ended. An execution may be repeated when its node dies in it;
        what is recorded, and returned here, is one.

        :param key: the ``dedupe_key``; all other fields of ``NewJob`` may follow. The job gets one label more, ``once``; it may
            have 31 of its own.
        :param timeout: for the wait, in seconds or a ``timedelta``. None: for as long as it takes.
        :raises OnceConflict: if the key stands for another payload; nothing was stored.
        :raises OnceNotYours: if another producer's job holds it.
        :raises OnceFailed: if it ended otherwise than well; with the job and its ``reason``.
        :raises OnceTooLarge: if its answer has more than 64 MiB: ``read_result`` has it.
        :raises OnceForgotten: if it had ended before, and its answer is not kept any more.
        :raises NotDone: if the timeout was first; the work goes on, and the same call waits for it again.
        """
        asked = _once.asking(kind, key, payload, fields)
        answer = self.enqueue(asked)
        _once.check(asked, answer)
        job = self.wait(answer.job.id, timeout)
        _once.check_end(job)
        try:
            result = self._left(job)
        except NotFound as refused:
            result = _once.nothing(answer, job, refused)
        return _once.done(answer, job, result)

    def explain(self, job_id: str) -> wire.ExplainJobResponse:
        """Why a job does not run yet, as data; ``summary`` is the answer in one sentence."""
        answer: wire.ExplainJobResponse = self._call("ExplainJob", wire.ExplainJobRequest(job_id=job_id))
        return answer

    def attempts(self, job_id: str) -> List[job_pb2.Attempt]:
        """Every ended execution of a job, oldest first."""
        request = wire.ListAttemptsRequest(job_id=job_id, page_size=1_000)
        attempts: List[job_pb2.Attempt] = []
        while True:
            answer = self._call("ListAttempts", request)
            attempts += answer.attempts
            if not answer.next_page_token:
                return attempts
            request.page_token = answer.next_page_token

    def cancel(self, job_id: str, reason: str = "") -> Job:
        """Asks for the end of a job; ``reason`` is kept with it. One that does not run is cancelled at once, a running one is
        told to stop. Twice is as good as once.

        :raises PreconditionFailed: if the job ended otherwise.
        """
        return Job.of(self._call("CancelJob", wire.CancelJobRequest(job_id=job_id, reason=reason)).job)

    def requeue(self, job_id: str, *, force: bool = False) -> Job:
        """Takes a dead or cancelled job back to its queue. ``force`` also frees one whose last processes are not known to be
        gone."""
        return Job.of(self._call("RequeueJob", wire.RequeueJobRequest(job_id=job_id, force=force)).job)

    def delete(self, job_id: str) -> Job:
        """Removes a final job with its payload, attempts and result; returns it as it stood."""
        return Job.of(self._call("DeleteJob", wire.DeleteJobRequest(job_id=job_id)).job)

    def _tries(self, server_time: float = 0.0) -> Tries:
        return Tries(self._retry, len(self._channels), server_time)

    def _server(self) -> "tuple[int, Any]":
        with self._lock:
            return self._current, self._stubs[self._current]

    def _move_on(self, place: int) -> None:
        """The server at this place did not serve: the next one is asked, unless somebody else has moved on already."""
        with self._lock:
            if self._current == place:
                self._current = (place + 1) % len(self._stubs)

    def _call(self, rpc: str, request: Any, tries: Optional[Tries] = None) -> Any:
        """Sends a request until it is answered by anything but UNAVAILABLE, or until the deadline."""
        tries = tries or self._tries()
        while True:
            place, stub = self._server()
            method: Callable[..., Any] = getattr(stub, rpc)
            try:
                return method(request, timeout=tries.timeout())
            except grpc.RpcError as error:
                refusal = refusal_of(error)
                if refusal.code != grpc.StatusCode.UNAVAILABLE:
                    raise refusal from error
                self._move_on(place)
                pause = tries.pause(refusal)
                if pause is None:
                    raise Unavailable(self.endpoint, tries.sent, tries.waited, refusal) from error
                _log.debug("%s: %s is unavailable, trying again in %.2f s: %s", rpc, self.endpoint, pause, refusal)
            time.sleep(pause)


__all__: Sequence[str] = ["Client"]
