"""Jobs: what a producer describes, and what the server keeps of it."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Iterable, Mapping, Optional, Sequence, Tuple, Union

from ._ids import new_job_id
from ._times import Seconds, duration, instant, timestamp
from .v1 import job_pb2

#: What a payload may be: bytes, text, or anything that ``json.dumps`` takes.
PayloadLike = Union[bytes, bytearray, memoryview, str, Mapping[str, Any], Sequence[Any], int, float, bool, None]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"


def encode(payload: Any) -> Tuple[bytes, str]:
    """The bytes of a payload or a result, and their media type.

    :raises TypeError: if it is neither bytes nor text nor JSON.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload), BYTES
    if isinstance(payload, str):
        return payload.encode(), TEXT
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(), JSON


class JobState(str, enum.Enum):
    """Where a job stands. ``SUCCEEDED``, ``DEAD``, ``CANCELLED`` and ``EXPIRED`` are final."""

    #: Waits for its ``run_at``, or for the end of a retry back-off.
    SCHEDULED = "scheduled"
    #: Waits for jobs of its workflow that come before it.
    BLOCKED = "blocked"
    #: Waits for its slots; ``Job.deferral`` says which.
    QUEUED = "queued"
    #: A lease was granted.
    RUNNING = "running"
    #: A parent that waits for its children.
    WAITING = "waiting"
    #: Ended well.
    SUCCEEDED = "succeeded"
    #: Its failures or losses reached their cap, or its error was permanent.
    DEAD = "dead"
    #: Cancelled by a person or a program.
    CANCELLED = "cancelled"
    #: Was not started within its ``stale_after``.
    EXPIRED = "expired"
    #: A state that this version of the package does not know.
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether the job changes no more, but for a requeue."""
        return self in _FINAL

    def __str__(self) -> str:
        return self.value


_FINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED})


def _state(number: int) -> JobState:
    try:
        return JobState(job_pb2.JobState.Name(number).removeprefix("JOB_STATE_").lower())
    except ValueError:
        return JobState.UNKNOWN


class OnParent(str, enum.Enum):
    """What becomes of a child when something happens to its parent."""

    #: It is cancelled, as by a request, and so is what follows it.
    CANCEL = "cancel"
    #: It goes on.
    KEEP = "keep"


_ON_PARENT = {
    None: job_pb2.ON_PARENT_UNSPECIFIED,
    OnParent.CANCEL: job_pb2.ON_PARENT_CANCEL,
    OnParent.KEEP: job_pb2.ON_PARENT_KEEP,
}

_SET = re.compile(r"\s*(\S+)\s+(not\s+)?in\s*\(([^()]*)\)\s*\Z")
_EQUAL = re.compile(r"\s*([^\s=!]+)\s*(!?=)\s*([^=]*?)\s*\Z")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s=!()]+)\s*\Z")


def requirement(text: str) -> job_pb2.Requirement:
    """What a node label must be: ``os=linux``, ``os!=linux``, ``gpu in (a100, h100)``, ``gpu not in (a100, h100)``,
    ``gpu`` (the node has the label) or ``!gpu``.

    :raises ValueError: if the text is none of these.
    """
    if found := _SET.match(text):
        values = [value.strip() for value in found[3].split(",")]
        if all(values):
            operator = job_pb2.REQUIREMENT_OPERATOR_NOT_IN if found[2] else job_pb2.REQUIREMENT_OPERATOR_IN
            return job_pb2.Requirement(label=found[1], operator=operator, values=values)
    elif found := _EQUAL.match(text):
        equal = found[2] == "="
        operator = job_pb2.REQUIREMENT_OPERATOR_IN if equal else job_pb2.REQUIREMENT_OPERATOR_NOT_IN
        return job_pb2.Requirement(label=found[1], operator=operator, values=[found[3]])
    elif found := _EXISTS.match(text):
        absent = bool(found[1])
        operator = job_pb2.REQUIREMENT_OPERATOR_NOT_EXISTS if absent else job_pb2.REQUIREMENT_OPERATOR_EXISTS
        return job_pb2.Requirement(label=found[2], operator=operator)
    raise ValueError(f"no requirement: {text!r}; write for example \"gpu in (a100, h100)\" or \"os=linux\"")


@dataclass(frozen=True)
class NewJob:
    """A job to be enqueued. It has its id from the start, so that the same value enqueued again is the same job.

    >>> job = NewJob("site.qa", {"url": "https://example.org"}, dedupe_key="site.qa:example.org")
    >>> job.id == job.id
    True
    """

    #: A kind that the fleet file declares.
    kind: str
    #: The input: bytes, text, or anything that ``json.dumps`` takes. None: empty.
    payload: PayloadLike = None
    #: A media type. None: that of the payload's Python type.
    content_type: Optional[str] = None
    #: Made by ``new_job_id``; to send a call of an earlier process again.
    id: str = field(default_factory=new_job_id)
    #: The identity of the business work: the first job with it, of this kind and tenant, answers for all others.
    dedupe_key: str = ""
    #: What it shares with jobs of its kind and tenant that may not all run at once.
    concurrency_key: str = ""
    #: Whose work it is.
    tenant: str = ""
    #: -100 to 100, higher first. None: the kind's.
    priority: Optional[int] = None
    #: Not to be started before this instant; it needs a zone.
    run_at: Optional[datetime] = None
    #: Not to be started before this long after the enqueue.
    delay: Optional[Seconds] = None
    #: Expires if not started within this long after the enqueue.
    stale_after: Optional[Seconds] = None
    #: For people and filters.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: What the labels of the node must be, each as ``requirement`` reads it.
    selector: Iterable[str] = ()
    #: Which nodes it would rather have, the weightiest first, each as ``requirement`` reads it.
    prefer: Iterable[str] = ()
    #: Units by slot instead of the kind's. An empty mapping: no slot at all. None: as the kind says.
    needs: Optional[Mapping[str, int]] = None
    #: A hard limit of each attempt; it may only shorten the kind's.
    hard_time_limit: Optional[Seconds] = None
    #: A live job of the same producer that this one belongs to.
    parent_id: str = ""
    #: Of a child: what becomes of it when its parent is cancelled. None: it is cancelled.
    on_parent_cancel: Optional[OnParent] = None
    #: Of a child: what becomes of it when an execution of its parent is lost. None: it goes on.
    on_parent_lost: Optional[OnParent] = None
    #: A W3C ``traceparent``: attempts are linked to it.
    traceparent: str = ""
    #: The W3C ``tracestate`` beside it.
    tracestate: str = ""

    def spec(self) -> job_pb2.JobSpec:
        """The job for the wire.

        :raises TypeError: if the payload is neither bytes nor text nor JSON.
        :raises ValueError: if a requirement cannot be read, or ``run_at`` has no zone.
        """
        spec = job_pb2.JobSpec(
            kind=self.kind,
            job_id=self.id,
            dedupe_key=self.dedupe_key,
            concurrency_key=self.concurrency_key,
            tenant=self.tenant,
            priority=self.priority,
            labels=dict(self.labels),
            parent_id=self.parent_id,
            traceparent=self.traceparent,
            tracestate=self.tracestate,
            on_parent_cancel=_ON_PARENT[self.on_parent_cancel],
            on_parent_lost=_ON_PARENT[self.on_parent_lost],
            requirements=[requirement(text) for text in self.selector],
            prefer=[requirement(text) for text in self.prefer],
        )
        if self.payload is not None or self.content_type is not None:
            data, content_type = encode(self.payload) if self.payload is not None else (b"", BYTES)
            spec.payload.data = data
            spec.payload.content_type = self.content_type or content_type
        if self.run_at is not None:
            spec.run_at.CopyFrom(timestamp(self.run_at))
        for name, value in [
            ("delay", self.delay),
            ("stale_after", self.stale_after),
            ("hard_time_limit", self.hard_time_limit),
        ]:
            if value is not None:
                getattr(spec, name).CopyFrom(duration(value))
        if self.needs is not None:
            amounts = [job_pb2.SlotAmount(slot=slot, amount=amount) for slot, amount in self.needs.items()]
            spec.needs.CopyFrom(job_pb2.Needs(slots=amounts))
        return spec


@dataclass(frozen=True)
class Job:
    """A job as the server keeps it, at its ``version``."""

    #: A UUID v7.
    id: str
    #: Its kind.
    kind: str
    #: Whose work it is.
    tenant: str
    #: Where it stands.
    state: JobState
    #: Rises by one at each durable change of the job.
    version: int
    #: The number of the present or next attempt.
    attempt: int
    #: Of this round: it ran and failed or timed out.
    failures: int
    #: Of this round: its lease ended in silence, or its node died.
    losses: int
    #: The node of the live lease; empty: none.
    node: str
    #: Why it stands where it stands, in a sentence: the last error, who cancelled it, why it expired.
    reason: str
    #: Why it does not run yet, in a sentence. None: it runs, or is final.
    deferral: Optional[str]
    #: When it was enqueued.
    create_time: datetime
    #: First start of the newest execution. None: not reported.
    start_time: Optional[datetime]
    #: When it became final. None: it is not.
    finish_time: Optional[datetime]
    #: Everything else.
    proto: job_pb2.Job

    @classmethod
    def of(cls, job: job_pb2.Job) -> "Job":
        """From the wire."""
        return cls(
            id=job.id,
            kind=job.kind,
            tenant=job.tenant,
            state=_state(job.state),
            version=job.version,
            attempt=job.attempt,
            failures=job.failures,
            losses=job.losses,
            node=job.node,
            reason=job.reason,
            deferral=job.deferral.message if job.HasField("deferral") else None,
            create_time=instant(job.create_time),
            start_time=instant(job.start_time) if job.HasField("start_time") else None,
            finish_time=instant(job.finish_time) if job.HasField("finish_time") else None,
            proto=job,
        )


@dataclass(frozen=True)
class Enqueued:
    """A job that is stored."""

    #: The job; the first one if deduplicated.
    job: Job
    #: A job with this dedupe key or id was there before this call; nothing was stored.
    deduplicated: bool


@dataclass(frozen=True)
class Result:
    """The output of one execution."""

    #: The bytes.
    data: bytes
    #: A media type, as the node said.
    content_type: str
    #: The fencing token of the execution that produced it.
    token: int
    #: Its execution had to end before it was done.
    partial: bool = False

    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode()

    def json(self) -> Any:
        """The bytes as JSON."""
        return json.loads(self.data)
