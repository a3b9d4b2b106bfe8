"""What can become of a call besides its answer.

A refusal is the server's no: nothing was stored. Its class is that of its reason, so that one may catch ``QueueFull`` and
nothing else; ``retry_after`` says when the same call may succeed, and only the caller knows whether it wants to wait.
``Unavailable`` is no refusal: whether the last try was carried out is not known, and the same call again, with the same
ids, is safe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Tuple

import grpc
from google.rpc import error_details_pb2, status_pb2

from ._times import length

if TYPE_CHECKING:
    from ._jobs import Job

__all__ = [
    "AlreadyExists",
    "BudgetExhausted",
    "EndpointError",
    "FieldViolation",
    "InvalidField",
    "JobIdReused",
    "JobNotFound",
    "KindNotFound",
    "KindPaused",
    "NotAllowed",
    "NotDone",
    "NotFound",
    "PayloadTooLarge",
    "PreconditionFailed",
    "PreconditionViolation",
    "ProducerRate",
    "QueueFull",
    "QuotaViolation",
    "Refusal",
    "ResourceExhausted",
    "TenureError",
    "TreeLimit",
    "Unavailable",
    "UnexpectedAnswer",
]


@dataclass(frozen=True)
class FieldViolation:
    """One field of the request that was wrong."""

    #: Its path, such as ``job.kind``.
    field: str
    #: What is wrong with it.
    description: str


@dataclass(frozen=True)
class QuotaViolation:
    """One limit that was reached."""

    #: Whose limit: a kind, a producer.
    subject: str
    #: The limit in words.
    description: str
    #: Which limit, by name; empty from older servers.
    quota: str = ""
    #: The limit as a number; 0 if the server named none.
    limit: int = 0
    #: Further figures by name, such as the depth.
    dimensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PreconditionViolation:
    """One condition that does not hold."""

    #: The kind of condition.
    condition: str
    #: What it is about: a slot, a kind.
    subject: str
    #: What would have to hold.
    description: str


class TenureError(Exception):
    """Everything that this package raises."""


class EndpointError(TenureError, ValueError):
    """The address of the server cannot be used. Nothing was sent."""


class UnexpectedAnswer(TenureError):
    """The server answered well, but without a part that it always sends: it speaks another protocol."""


class NotDone(TenureError, TimeoutError):
    """The wait ran out before the job was final."""

    def __init__(self, job: "Job") -> None:
        super().__init__(f"the job {job.id} is still {job.state.value}")
        #: The job as it stood at the end of the wait.
        self.job = job


class OnceConflict(TenureError):
    """A key stands for another payload. Nothing was stored, and nothing runs."""

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"the key {key!r} was used for something else, by job {job_id}")
        #: The key.
        self.key = key
        #: The job that holds it.
        self.job_id = job_id


class OnceNotYours(OnceConflict):
    """A key is held by a job of another producer, of which nothing but its id is shown."""


class OnceTooLarge(TenureError):
    """It was done, and its answer is larger than 64 MiB: ``Client.read_result`` has it."""

    def __init__(self, job: "Job", size: int) -> None:
        super().__init__(f"the answer of job {job.id} has {size} bytes: read_result has it")
        #: The job.
        self.job = job
        #: The size of its answer in bytes.
        self.size = size


class OnceFailed(TenureError):
    """What is to be done once ended otherwise than well, and everybody who asks hears that. ``Client.requeue`` has it tried
    again under the same key; ``Client.delete`` lets go of the key."""

    def __init__(self, job: "Job") -> None:
        super().__init__(f"the job {job.id} ended {job.state.value}: {job.reason}")
        #: The job as it stands; ``reason`` says why.
        self.job = job


class OnceForgotten(TenureError):
    """It was done before this call, and its answer is not kept any more. Also of a job that may have left none, if it ended under a
    server that did not note that: an empty answer is not made up."""

    def __init__(self, job: "Job") -> None:
        super().__init__(f"the answer of job {job.id} is not kept any more, if it left one")
        #: The job.
        self.job = job


class Refusal(TenureError):
    """The server answered no. Nothing was stored, and the same call at once would meet the same answer."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        retry_after: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        field_violations: Sequence[FieldViolation] = (),
        quota_violations: Sequence[QuotaViolation] = (),
        precondition_violations: Sequence[PreconditionViolation] = (),
        resource: Optional[Tuple[str, str]] = None,
    ) -> None:
        super().__init__(f"{message} ({reason})" if reason else message or code.name)
        #: The gRPC code.
        self.code = code
        #: A sentence for people.
        self.message = message
        #: A stable word in upper case (``QUEUE_FULL``). Empty if the answer came from the transport.
        self.reason = reason
        #: Seconds after which the same call may succeed. None: waiting alone does not cure it, or the server cannot tell.
        self.retry_after = retry_after
        #: Every dynamic value of the message, by name.
        self.metadata = dict(metadata or {})
        #: Each field that was wrong, all at once.
        self.field_violations = tuple(field_violations)
        #: Each limit that was reached.
        self.quota_violations = tuple(quota_violations)
        #: Each condition that does not hold.
        self.precondition_violations = tuple(precondition_violations)
        #: What was not found, or is in the way: its kind (job, kind, node, slot) and its name.
        self.resource = resource


class NotFound(Refusal):
    """What the call names does not exist."""


class JobNotFound(NotFound):
    """No such job, or not any more."""


class WorkflowNotFound(NotFound):
    """No such workflow, or not any more."""


class KindNotFound(NotFound):
    """The fleet file declares no such kind; ``metadata`` has the nearest names."""


class AlreadyExists(Refusal):
    """It exists with other contents."""


class JobIdReused(AlreadyExists):
    """The id belongs to another job."""


class InvalidField(Refusal):
    """Something in the request is wrong; ``field_violations`` names all of it."""


class PayloadTooLarge(InvalidField):
    """Store it elsewhere and send a reference."""


class ResourceExhausted(Refusal):
    """A limit was reached; ``retry_after`` says when to come back, if waiting helps."""


class QueueFull(ResourceExhausted):
    """The kind's queue is full."""


class ProducerRate(ResourceExhausted):
    """This producer is too fast."""


class BudgetExhausted(ResourceExhausted):
    """The kind's budget is spent."""


class TreeLimit(ResourceExhausted):
    """The tree of parents and children has grown to its limits."""


class PreconditionFailed(Refusal):
    """Something about the fleet or the job is not as the call needs it."""


class KindPaused(PreconditionFailed):
    """Somebody has paused the kind, and it takes no jobs meanwhile."""


class NotAllowed(Refusal):
    """Who calls may not do this."""


class Unavailable(TenureError):
    """No server was to be reached, or none was ready, until the deadline of the call.

    Whether the last try was carried out is not known; the same call again, with the same ids, is safe.
    """

    def __init__(self, endpoint: str, tries: int, waited: float, last: Refusal) -> None:
        super().__init__(f"no answer from {endpoint} after {tries} tries in {waited:.1f} s: {last}")
        #: The addresses of the servers.
        self.endpoint = endpoint
        #: How often the call was sent.
        self.tries = tries
        #: Seconds from the first try to giving up.
        self.waited = waited
        #: What the last try met.
        self.last = last


_OF_REASON: Mapping[str, type[Refusal]] = {
    "BUDGET_EXHAUSTED": BudgetExhausted,
    "JOB_ID_REUSED": JobIdReused,
    "JOB_NOT_FOUND": JobNotFound,
    "KIND_NOT_FOUND": KindNotFound,
    "KIND_PAUSED": KindPaused,
    "PAYLOAD_TOO_LARGE": PayloadTooLarge,
    "PRODUCER_RATE": ProducerRate,
    "QUEUE_FULL": QueueFull,
    "TREE_LIMIT": TreeLimit,
    "WORKFLOW_NOT_FOUND": WorkflowNotFound,
}

_OF_CODE: Mapping[grpc.StatusCode, type[Refusal]] = {
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionFailed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidField,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
}

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}

#: Codes of what no server of Tenure has said, such as that a connection broke while the call was in flight.
_CUT_OFF = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Decodes the status of a call. What is malformed in it is left out; this never fails.

    Every no of Tenure has a reason. What has none comes from the transport, and where that says that nobody answered, it
    becomes UNAVAILABLE.
    """
    code, message = error.code(), error.details() or ""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                status = status_pb2.Status.FromString(value)
            except Exception:  # noqa: BLE001 - a peer may send anything
                status = status_pb2.Status()
    refusal = _refusal(code, message, status)
    if not refusal.reason and code in _CUT_OFF:
        return Refusal(grpc.StatusCode.UNAVAILABLE, message)
    return refusal


def refusal_of_item(status: status_pb2.Status) -> Refusal:
    """Decodes the status of one item of a batch."""
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return _refusal(code, status.message, status)


def _refusal(code: grpc.StatusCode, message: str, status: status_pb2.Status) -> Refusal:
    reason, retry_after, metadata, resource = "", None, {}, None
    fields: list[FieldViolation] = []
    quotas: list[QuotaViolation] = []
    preconditions: list[PreconditionViolation] = []
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        retry = error_details_pb2.RetryInfo()
        bad = error_details_pb2.BadRequest()
        quota = error_details_pb2.QuotaFailure()
        precondition = error_details_pb2.PreconditionFailure()
        about = error_details_pb2.ResourceInfo()
        try:
            if detail.Unpack(info):
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                retry_after = length(retry.retry_delay)
            elif detail.Unpack(bad):
                fields += [FieldViolation(it.field, it.description) for it in bad.field_violations]
            elif detail.Unpack(quota):
                quotas += [_quota(it) for it in quota.violations]
            elif detail.Unpack(precondition):
                preconditions += [
                    PreconditionViolation(it.type, it.subject, it.description) for it in precondition.violations
                ]
            elif detail.Unpack(about):
                resource = (about.resource_type, about.resource_name)
        except Exception:  # noqa: BLE001 - a peer may send anything
            continue
    of = _OF_REASON.get(reason) or _OF_CODE.get(code) or Refusal
    return of(
        code,
        message,
        reason=reason,
        retry_after=retry_after,
        metadata=metadata,
        field_violations=fields,
        quota_violations=quotas,
        precondition_violations=preconditions,
        resource=resource,
    )


def _quota(it: error_details_pb2.QuotaFailure.Violation) -> QuotaViolation:
    # Older releases of googleapis-common-protos do not know the last three.
    quota, limit = getattr(it, "quota_id", ""), getattr(it, "quota_value", 0)
    dimensions = dict(getattr(it, "quota_dimensions", {}))
    return QuotaViolation(it.subject, it.description, quota, limit, dimensions)
