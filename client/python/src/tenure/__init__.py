"""Tenure from Python: enqueue jobs, follow them, and run them in workers.

>>> import tenure
>>> job = tenure.NewJob("digest.daily", {"edition": "morning"}, dedupe_key="digest.daily:2026-09-30")

``Client`` is the synchronous client, ``tenure.aio.Client`` that for asyncio; ``errors`` has what can become of a call;
``tenure.v1`` has the messages of the wire for everything that has no nicer type here.
"""

from ._ids import new_job_id
from ._jobs import Enqueued, Job, JobState, NewJob, OnParent, Result, requirement
from ._once import Once
from ._servers import DEFAULT_ENDPOINT, RetryPolicy, Tls
from .client import Client
from .errors import (
    AlreadyExists,
    BudgetExhausted,
    EndpointError,
    FieldViolation,
    InvalidField,
    JobIdReused,
    JobNotFound,
    KindNotFound,
    KindPaused,
    NotAllowed,
    NotDone,
    NotFound,
    OnceConflict,
    OnceFailed,
    OnceForgotten,
    PayloadTooLarge,
    PreconditionFailed,
    PreconditionViolation,
    ProducerRate,
    QueueFull,
    QuotaViolation,
    Refusal,
    ResourceExhausted,
    TenureError,
    TreeLimit,
    Unavailable,
    UnexpectedAnswer,
)
from .worker import Attempt, Input, JobFailed, Permanent, Retry, SoftLimit, Stopped, Worker

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Attempt",
    "BudgetExhausted",
    "Client",
    "DEFAULT_ENDPOINT",
    "EndpointError",
    "Enqueued",
    "FieldViolation",
    "Input",
    "InvalidField",
    "Job",
    "JobFailed",
    "JobIdReused",
    "JobNotFound",
    "JobState",
    "KindNotFound",
    "KindPaused",
    "NewJob",
    "NotAllowed",
    "NotDone",
    "NotFound",
    "OnParent",
    "Once",
    "OnceConflict",
    "OnceFailed",
    "OnceForgotten",
    "PayloadTooLarge",
    "Permanent",
    "PreconditionFailed",
    "PreconditionViolation",
    "ProducerRate",
    "QueueFull",
    "QuotaViolation",
    "Refusal",
    "ResourceExhausted",
    "Result",
    "Retry",
    "RetryPolicy",
    "SoftLimit",
    "Stopped",
    "TenureError",
    "Tls",
    "TreeLimit",
    "Unavailable",
    "UnexpectedAnswer",
    "Worker",
    "new_job_id",
    "requirement",
]
