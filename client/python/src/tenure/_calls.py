"""What both clients say and understand alike: requests, and what their answers mean."""

from __future__ import annotations

import hashlib
from typing import Any, Iterable, List, Optional, Sequence, Union

from ._jobs import Enqueued, Job, JobState, NewJob, PayloadLike, Result
from ._times import Seconds, duration, seconds
from .errors import TenureError, UnexpectedAnswer, refusal_of_item
from .v1 import job_pb2
from .v1 import job_service_pb2 as wire
from .v1.job_service_pb2_grpc import JobServiceStub
from .v1.workflow_service_pb2_grpc import WorkflowServiceStub

#: One long poll of ``wait``, in seconds. The server takes up to 10 minutes; shorter polls notice a dead connection sooner.
POLL = 60.0
#: Senders split so that no message is larger than this, encoded.
_MAX_MESSAGE_BYTES = 1024 * 1024
#: The server takes at most this many jobs in one batch.
_MAX_BATCH_JOBS = 1_000


class Stub(JobServiceStub, WorkflowServiceStub):
    """The methods of all services that a client calls; no two have the same name."""

    def __init__(self, channel: Any) -> None:
        JobServiceStub.__init__(self, channel)  # type: ignore[no-untyped-call]
        WorkflowServiceStub.__init__(self, channel)  # type: ignore[no-untyped-call]


def new_job(job: Union[NewJob, str], payload: PayloadLike, fields: Any) -> NewJob:
    """The job of ``enqueue``: one that was described before, or a kind with the rest.

    :raises TypeError: if both were given.
    """
    if isinstance(job, str):
        return NewJob(job, payload, **fields)
    if payload is not None or fields:
        raise TypeError("a NewJob has its payload and all else already: use dataclasses.replace")
    return job


def enqueued(answer: wire.EnqueueResponse, sent: NewJob, retried: bool) -> Enqueued:
    """A call that was sent again may find the job that its own first try stored: to the caller that is no duplicate."""
    if not answer.HasField("job"):
        raise UnexpectedAnswer("the answer to Enqueue has no job")
    own = retried and answer.job.id == sent.id
    return Enqueued(Job.of(answer.job), answer.deduplicated and not own)


def batches(jobs: Sequence[NewJob], most: int = _MAX_MESSAGE_BYTES) -> Iterable[List[NewJob]]:
    """Cuts jobs into runs that each fit one message of ``most`` bytes. One that is too large alone is sent alone: the server names its
    limit."""
    run: List[NewJob] = []
    size = 0
    for job in jobs:
        encoded = job.spec().ByteSize()
        framed = encoded + 1 + len(_varint(encoded))
        if run and (size + framed > most or len(run) == _MAX_BATCH_JOBS):
            yield run
            run, size = [], 0
        run.append(job)
        size += framed
    if run:
        yield run


def _varint(number: int) -> bytes:
    length = max((number.bit_length() + 6) // 7, 1)
    return bytes(length)


def batch_answers(
    items: Sequence[wire.EnqueueBatchItem], sent: Sequence[NewJob], retried: bool
) -> List[Union[Enqueued, TenureError]]:
    """One answer per job, in their order."""
    if len(items) != len(sent):
        raise UnexpectedAnswer("the answer to EnqueueBatch has not one item for each of the jobs")
    answers: List[Union[Enqueued, TenureError]] = []
    for item, job in zip(items, sent):
        which = item.WhichOneof("answer")
        if which == "enqueued":
            answers.append(enqueued(item.enqueued, job, retried))
        elif which == "refused":
            answers.append(refusal_of_item(item.refused))
        else:
            answers.append(UnexpectedAnswer("an item of the answer to EnqueueBatch is empty"))
    return answers


def wait_request(job_id: str, left: Optional[float]) -> "tuple[wire.WaitJobRequest, float]":
    """One long poll, and how many seconds it takes by design."""
    poll = POLL if left is None else max(min(left, POLL), 0.0)
    return wire.WaitJobRequest(job_id=job_id, timeout=duration(poll)), poll


def remaining(timeout: Optional[Seconds]) -> Optional[float]:
    """A timeout in seconds; None: none."""
    return None if timeout is None else seconds(timeout)


def list_request(
    kind: str, states: Iterable[JobState], tenant: str, dedupe_key: str, parent_id: str, node: str, workflow_id: str
) -> wire.ListJobsRequest:
    """The first page of a list."""
    names = [f"JOB_STATE_{JobState(state).name}" for state in states]
    return wire.ListJobsRequest(
        kind=kind,
        states=names,
        tenant=tenant,
        dedupe_key=dedupe_key,
        parent_id=parent_id,
        node=node,
        workflow_id=workflow_id,
    )


def result_of(answer: wire.GetResultResponse) -> Result:
    """The result of an answer."""
    if not answer.HasField("result"):
        raise UnexpectedAnswer("the answer to GetResult has no result")
    result = answer.result
    return Result(data=result.data, content_type=result.content_type, token=result.token, partial=result.partial)


class Reading:
    """The messages of one read of a result: what it is, then bytes, as many as were announced and no others."""

    def __init__(self) -> None:
        self._head: Optional[wire.ReadResultResponse] = None
        self._left = 0
        self._sum = hashlib.sha256()

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return self._head is not None

    @property
    def head(self) -> job_pb2.ResultHead:
        """What it is; once it has begun."""
        if self._head is None:
            raise UnexpectedAnswer("a read of a result does not begin with what it is")
        return self._head.head

    def take(self, answer: wire.ReadResultResponse) -> bytes:
        """The bytes of a message; none in the first one."""
        if self._head is None:
            if answer.WhichOneof("part") != "head":
                raise UnexpectedAnswer("a read of a result does not begin with what it is")
            self._head, self._left = answer, answer.head.size
            return b""
        if answer.WhichOneof("part") != "data" or len(answer.data) > self._left:
            raise UnexpectedAnswer("a read of a result does not end where its head says")
        self._left -= len(answer.data)
        self._sum.update(answer.data)
        return answer.data

    def end(self) -> None:
        """These were all.

        :raises UnexpectedAnswer: if they are not what was announced.
        """
        if self._head is None or self._left:
            raise UnexpectedAnswer("a read of a result does not end where its head says")
        if self._sum.digest() != self._head.head.sha256:
            raise UnexpectedAnswer("the bytes of a result are not those that its checksum names")


class Watched:
    """Which messages of a watch are told: each version above the last, and the final one last."""

    def __init__(self) -> None:
        self._told: Optional[int] = None
        #: The final state was told.
        self.at_end = False

    def take(self, answer: wire.WatchJobResponse) -> Optional[Job]:
        """The job of a message, unless it is no news."""
        if not answer.HasField("job"):
            raise UnexpectedAnswer("a message of WatchJob has no job")
        job = Job.of(answer.job)
        if self._told is not None and job.version <= self._told:
            return None
        self._told = job.version
        self.at_end = job.state.is_final
        return job
