"""One attempt of a job as its function sees it, and the ways in which a function ends: what plain and ``async`` functions
have in common."""

from __future__ import annotations

import enum
import json
import threading
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._ids import child_id
from ._jobs import Enqueued, JobState, NewJob, PayloadLike, _state, encode
from ._times import Seconds, duration, length
from .errors import TenureError
from .node.v1 import attempt_service_pb2 as words
from .node.v1 import node_service_pb2 as node_wire
from .node.v1 import session_pb2 as session_wire
from .node.v1 import worker_service_pb2 as wire
from .v1 import job_pb2

#: A child: its id, or what has one.
Child = Union[str, NewJob, Enqueued]


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


class NotSupported(TenureError):
    """The agent is older than what was asked of it: its attempts in workers cannot say that."""


class SoftLimit(TenureError):
    """Raised once inside an attempt that ran into its soft time limit, by ``Attempt.check``, ``Attempt.sleep`` and
    ``aio.Attempt.soft_limit``: what the function returns from now on is a partial result. One that does not catch it has timed
    out."""


class Stopped(BaseException):
    """Raised inside an attempt that is to stop, by ``Attempt.check`` and whatever waits; ``asyncio`` functions are cancelled
    instead.

    It is no ``Exception``, so that what catches those does not catch it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: ``cancelled``, ``time_limit``, ``drained`` or ``lease_lost``.
        self.reason = reason


class Until(str, enum.Enum):
    """When a wait is over; it is at the latest when no end more can come."""

    #: All have ended, whatever their ends.
    ALL = "all"
    #: One has succeeded.
    ANY = "any"
    #: One has ended otherwise than well, or all have ended.
    FIRST_FAILURE = "first_failure"


_POLICIES = {
    Until.ALL: job_pb2.WAIT_POLICY_ALL,
    Until.ANY: job_pb2.WAIT_POLICY_ANY,
    Until.FIRST_FAILURE: job_pb2.WAIT_POLICY_FIRST_FAILURE,
}


class Detach(BaseException):
    """Raised or returned by a function: the attempt ends in order to wait for children, and holds nothing meanwhile. The job comes
    back as another execution, which begins at its beginning, with ``resumed``, ``inputs`` (how the children ended, in this order)
    and ``state``.

    It is no ``Exception``, so that what catches those does not catch it: ``Attempt.wait`` raises it, too, if its attempt may not
    stay.
    """

    def __init__(
        self,
        children: Iterable[Child],
        *,
        until: Until = Until.ALL,
        at_least: Optional[int] = None,
        max_wait: Optional[Seconds] = None,
        same_node: bool = False,
        state: PayloadLike = None,
    ) -> None:
        """
        :param children: of this job, in the order in which their ends are wanted.
        :param until: when the wait is over.
        :param at_least: instead: once so many have succeeded, or cannot any more.
        :param max_wait: no longer than this: then with the ends that there are.
        :param same_node: it would like to come back to this node.
        :param state: what the next execution finds again, at most 256 KiB: bytes, text, or anything that ``json.dumps`` takes.
        :raises ValueError: if both ``until`` and ``at_least`` say something, or ``at_least`` is none.
        """
        super().__init__("it ends in order to wait for others")
        self.terms = terms(children, until, at_least, max_wait)
        self.same_node = same_node
        #: The state and its media type; None: none.
        self.state = None if state is None else encode(state)

    def _wire(self) -> wire.WorkEnded:
        detach = session_wire.Detach(
            job_ids=self.terms.job_ids,
            policy=self.terms.policy,
            at_least=self.terms.at_least,
            same_node=self.same_node,
        )
        if self.terms.HasField("max_wait"):
            detach.max_wait.CopyFrom(self.terms.max_wait)
        detached = wire.WorkDetached(detach=detach)
        if self.state is not None:
            data, content_type = self.state
            detached.state.CopyFrom(session_wire.ResultBytes(data=data, content_type=content_type))
        return wire.WorkEnded(detached=detached)


def terms(
    children: Iterable[Child], until: Until, at_least: Optional[int], max_wait: Optional[Seconds]
) -> node_wire.WaitTerms:
    """What somebody waits for, for the wire."""
    if at_least is not None and (until is not Until.ALL or at_least < 1):
        raise ValueError("at_least is a number from 1 on, and there is no `until` beside it")
    policy = _POLICIES[Until(until)] if at_least is None else job_pb2.WAIT_POLICY_AT_LEAST
    asked = node_wire.WaitTerms(job_ids=ids(children), policy=policy, at_least=at_least or 0)
    if max_wait is not None:
        asked.max_wait.CopyFrom(duration(max_wait))
    return asked


def ids(children: Iterable[Child]) -> List[str]:
    """The ids of children."""
    if isinstance(children, str):
        raise TypeError("children are several: write [child]")
    return [_id(child) for child in children]


def _id(child: Child) -> str:
    if isinstance(child, Enqueued):
        return child.job.id
    return child.id if isinstance(child, NewJob) else child


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
    #: It had been asked to wrap up before it wrote that.
    partial: bool = False

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


def input_of(told: node_wire.InputResult, before: int = 0) -> Input:
    """How another job ended, from the wire; ``before``: so many come before its page."""
    result = told.result if told.HasField("result") else None
    return Input(
        index=before + told.index,
        job_id=told.job_id,
        state=_state(told.state),
        data=None if result is None else result.data,
        content_type="" if result is None else result.content_type,
        error=told.error,
        partial=told.partial,
    )


@dataclass(frozen=True)
class Lease:
    """Whether an attempt may still do what must not be done twice."""

    #: False: it is being stopped, and somebody else may run the job soon.
    live: bool
    #: Seconds until the end of the lease, unless the server renews it. None: it does not live.
    remaining: Optional[float]


def lease_of(answer: words.CheckLeaseResponse) -> Lease:
    """From the wire."""
    remaining = length(answer.remaining) if answer.HasField("remaining") else None
    return Lease(live=answer.live, remaining=remaining)


class BaseAttempt:
    """What plain and ``async`` functions find in their attempt alike. Plain ones get an ``Attempt``, others an
    ``aio.Attempt``."""

    def __init__(self, work: wire.Work, before: Sequence[wire.WorkInputs] = ()) -> None:
        self._stop = threading.Event()
        self._soft = False
        self._soft_raised = False
        # Either of them happened.
        self._woken = threading.Event()
        self._reason = ""
        # What it used that its agent has not heard yet.
        self._usage: Dict[str, int] = {}
        # The ends with which it came back have ended a wait that they do not meet.
        self._ends_taken = False
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
        self.inputs: Tuple[Input, ...] = tuple(input_of(told) for part in before for told in part.results)
        #: What its execution before left when it detached. None: nothing.
        self.state: Optional[bytes] = next((part.state.data for part in before if part.HasField("state")), None)
        #: The numbers of its units of slots that have numbers, such as those of its GPUs.
        self.indexes: Mapping[str, Tuple[int, ...]] = {
            slot: tuple(int(number) for number in numbers.split(",")) for slot, numbers in work.indexes.items()
        }
        #: The path of the attempt's own socket: as ``TENURE_SOCKET`` in the environment of a program that it starts it makes
        #: ``tenure attempt`` speak for it. Empty: its agent is too old.
        self.socket = work.socket

    def text(self) -> str:
        """The payload as UTF-8."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON. One that is none fails the job for good, unless the function says otherwise."""
        return json.loads(self.payload)

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
            self._woken.clear()
            if self._stop.is_set():
                self._woken.set()
            raise self._soft_limit()

    def _soft_limit(self) -> SoftLimit:
        self._soft_raised = True
        return SoftLimit(f"the soft time limit of {self.soft_time_limit or 0.0:g} s is over")

    def _wrap_up(self) -> None:
        self._soft = True
        self._woken.set()

    def _told(self, reason: str) -> bool:
        """It is to stop; False: it knows."""
        if self._stop.is_set():
            return False
        self._reason = reason
        self._stop.set()
        self._woken.set()
        return True

    def _children(self, jobs: Iterable[NewJob], step: str) -> List[NewJob]:
        """With the ids of a step, that are the same for each attempt of the job."""
        jobs = list(jobs)
        if not step:
            return jobs
        return [replace(job, id=child_id(self.job_id, step, index)) for index, job in enumerate(jobs)]

    def _waited(self, terms: node_wire.WaitTerms) -> Optional[Tuple[Input, ...]]:
        """The ends with which it came back, if it need not wait because of them: these meet the terms, or ``max_wait`` has ended
        that wait. That is so once: nobody says which of several waits for the same children it was."""
        if not self.resumed or [end.job_id for end in self.inputs] != list(terms.job_ids):
            return None
        if meet(self.inputs, terms):
            return self.inputs
        if not terms.HasField("max_wait") or self._ends_taken:
            return None
        self._ends_taken = True
        return self.inputs

    def _spent(self, counters: Mapping[str, int]) -> None:
        """Adds to what is told at the end."""
        for counter, amount in counters.items():
            self._usage[counter] = self._usage.get(counter, 0) + amount


def meet(ends: Sequence[Input], terms: node_wire.WaitTerms) -> bool:
    """Whether these ends of all its children leave a wait nothing to wait for."""
    good = sum(end.state is JobState.SUCCEEDED for end in ends)
    # Unspecified: there is no such job.
    bad = sum(end.state.is_final and end.state is not JobState.SUCCEEDED or end.state is JobState.UNKNOWN for end in ends)
    left = len(ends) - good - bad
    if terms.policy == job_pb2.WAIT_POLICY_ANY:
        met = good > 0
    elif terms.policy == job_pb2.WAIT_POLICY_AT_LEAST:
        met = good >= terms.at_least or good + left < terms.at_least
    elif terms.policy == job_pb2.WAIT_POLICY_FIRST_FAILURE:
        met = bad > 0
    else:
        met = False
    return met or left == 0


def used(counters: Mapping[str, int]) -> Mapping[str, int]:
    """What was used, if it can be.

    :raises ValueError: if something would shrink.
    """
    for counter, amount in counters.items():
        if amount < 0:
            raise ValueError(f"{counter} cannot shrink by {-amount}")
    return counters
