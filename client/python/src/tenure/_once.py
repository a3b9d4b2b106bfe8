"""Work that is done once for a key: the claim is the server's, the rest is here.

The job that holds the ``dedupe_key`` is the claim, the run and the kept answer. It carries a digest of what was asked as a label,
so that an answer is never that of another payload.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Dict, List

import grpc

from ._calls import Reading
from ._jobs import BYTES, Enqueued, Job, JobState, NewJob, PayloadLike, Result
from .errors import NotFound, OnceConflict, OnceFailed, OnceForgotten, OnceNotYours, OnceTooLarge, Refusal

#: The label that holds the digest of what was asked.
LABEL = "once"
#: The largest answer that ``once`` returns, in bytes: it is held in memory. ``read_result`` has larger ones.
MOST_BYTES = 64 << 20
#: Reads of one answer that may break in the midst before that is told to the caller.
BREAKS = 5
#: Of the digest, in hexadecimal digits.
_DIGITS = 32


@dataclass(frozen=True)
class Once:
    """The answer to work that is done once."""

    #: The job that did it.
    job: Job
    #: What it left; empty if it left nothing.
    data: bytes
    #: The media type of that; empty if it left nothing.
    content_type: str
    #: The job was there before this call: its answer was kept, or is the end of what had been begun. That may have been an earlier
    #: call of one's own; a try of this very call whose answer was lost does not count.
    replayed: bool
    #: It was asked to wrap up before it was done.
    partial: bool = False

    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode()

    def json(self) -> Any:
        """The bytes as JSON."""
        return json.loads(self.data)


def asking(kind: str, key: str, payload: PayloadLike, fields: Dict[str, Any]) -> NewJob:
    """The job that is enqueued for a key.

    :raises ValueError: if the key is empty, or the job has a label ``once`` of its own.
    """
    if not key:
        raise ValueError("without a key nothing can be asked again")
    job = NewJob(kind, payload, dedupe_key=key, **fields)
    if LABEL in job.labels:
        raise ValueError("the label 'once' is not for the caller to set: the digest of what is asked stands in it")
    return replace(job, labels={**job.labels, LABEL: digest(job)})


def digest(job: NewJob) -> str:
    """Payload and media type, each with its length, so that no two give the same bytes."""
    spec = job.spec()
    hashed = hashlib.sha256()
    for part in (spec.payload.data, (spec.payload.content_type or BYTES).encode()):
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.hexdigest()[:_DIGITS]


def check(asked: NewJob, answer: Enqueued) -> None:
    """Whether the job that answers is that of the same question.

    :raises OnceConflict: if it is not.
    :raises OnceNotYours: if it is another producer's.
    """
    # Of another producer's job the server tells the id alone.
    if answer.deduplicated and not answer.job.kind:
        raise OnceNotYours(asked.dedupe_key, answer.job.id)
    if answer.deduplicated and answer.job.proto.labels.get(LABEL) != asked.labels[LABEL]:
        raise OnceConflict(asked.dedupe_key, answer.job.id)


def check_end(job: Job) -> None:
    """Whether the job that has ended did well.

    :raises OnceFailed: if it did not.
    """
    if job.state is not JobState.SUCCEEDED:
        raise OnceFailed(job)


def nothing(answer: Enqueued, job: Job, refused: NotFound) -> Result:
    """What there is where there is no result.

    :raises OnceForgotten: if there was one, or may have been: where nobody noted whether the job left one, the server judges by the
        ``result_ttl`` of today, and of a job that had ended before the call it may have been shorter.
    :raises NotFound: if it is about something else.
    """
    if refused.reason != "RESULT_NOT_FOUND":
        raise refused
    # A try of this very call that was answered late is not what others asked before.
    ended_before = answer.deduplicated and answer.job.state is JobState.SUCCEEDED
    left_nothing = refused.metadata.get("left_nothing") == "true"
    if refused.metadata.get("expired") == "true" or (ended_before and not left_nothing):
        raise OnceForgotten(job) from refused
    return Result(data=b"", content_type="", token=job.proto.token)


class Left:
    """The reads of what a job left, until one is whole."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._breaks = 0
        self._pieces: List[bytes] = []

    def begins(self, reading: Reading) -> None:
        """A read has begun.

        :raises OnceTooLarge: if that is more than is held in memory.
        """
        self._pieces = []
        if reading.head.size > MOST_BYTES:
            raise OnceTooLarge(self._job, reading.head.size)

    def take(self, piece: bytes) -> None:
        """The next bytes of this read."""
        self._pieces.append(piece)

    def result(self, reading: Reading) -> Result:
        """The read is whole."""
        head = reading.head
        return Result(b"".join(self._pieces), head.content_type, head.token, head.partial)

    def breaks(self, refusal: Refusal) -> int:
        """A read has ended badly: how often that happened now.

        :raises Refusal: if it would do so again, or did too often.
        """
        self._breaks += 1
        if refusal.code != grpc.StatusCode.UNAVAILABLE or self._breaks > BREAKS:
            raise refusal
        return self._breaks


def is_older(refusal: Refusal) -> bool:
    """Whether the server knows no read: then it has no results that ``GetResult`` would refuse."""
    return bool(refusal.code == grpc.StatusCode.UNIMPLEMENTED)


def done(answer: Enqueued, job: Job, result: Result) -> Once:
    """The answer."""
    return Once(job=job, data=result.data, content_type=result.content_type, replayed=answer.deduplicated, partial=result.partial)
