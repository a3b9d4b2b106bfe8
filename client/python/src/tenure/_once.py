"""Work that is done once for a key: the claim is the server's, the rest is here.

The job that holds the ``dedupe_key`` is the claim, the run and the kept answer. It carries a digest of what was asked as a label,
so that an answer is never that of another payload.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Dict

from ._jobs import BYTES, Enqueued, Job, JobState, NewJob, PayloadLike, Result
from .errors import NotFound, OnceConflict, OnceFailed, OnceForgotten

#: The label that holds the digest of what was asked.
LABEL = "once"
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
    #: Somebody had asked before: this is the answer that was kept for them, or the end of what they had begun.
    replayed: bool

    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode()

    def json(self) -> Any:
        """The bytes as JSON."""
        return json.loads(self.data)


def asking(kind: str, key: str, payload: PayloadLike, fields: Dict[str, Any]) -> NewJob:
    """The job that is enqueued for a key.

    :raises ValueError: if the key is empty.
    """
    if not key:
        raise ValueError("without a key nothing can be asked again")
    job = NewJob(kind, payload, dedupe_key=key, **fields)
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

    :raises OnceConflict: if it is not, or is another producer's.
    """
    if answer.deduplicated and answer.job.proto.labels.get(LABEL) != asked.labels[LABEL]:
        raise OnceConflict(asked.dedupe_key, answer.job.id)


def check_end(job: Job) -> None:
    """Whether the job that has ended did well.

    :raises OnceFailed: if it did not.
    """
    if job.state is not JobState.SUCCEEDED:
        raise OnceFailed(job)


def nothing(job: Job, refused: NotFound) -> Result:
    """What there is where there is no result.

    :raises OnceForgotten: if there may have been one.
    :raises NotFound: if it is about something else.
    """
    if refused.reason != "RESULT_NOT_FOUND":
        raise refused
    if refused.metadata.get("expired") == "true":
        raise OnceForgotten(job) from refused
    return Result(data=b"", content_type="", token=job.proto.token)


def done(answer: Enqueued, job: Job, result: Result) -> Once:
    """The answer."""
    return Once(job=job, data=result.data, content_type=result.content_type, replayed=answer.deduplicated)
