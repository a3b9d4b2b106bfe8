"""Workflows: jobs behind and beside each other, described as a tree, stored whole.

>>> import tenure
>>> sources = [tenure.NewJob("research", source) for source in "abcd"]
>>> digest = tenure.chord(sources, tenure.NewJob("digest"), at_least=3, deadline=600)
>>> workflow = tenure.NewWorkflow(tenure.chain(digest, tenure.NewJob("mail")), name="morning")

``client.workflows.submit(workflow)`` stores it with all of its jobs, or refuses it whole.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Iterable, Mapping, Optional, Tuple, Union

from ._ids import new_job_id
from ._jobs import JobState, NewJob, _state
from ._times import Seconds, duration, instant
from .errors import UnexpectedAnswer
from .v1 import job_pb2
from .v1 import workflow_service_pb2 as wire

__all__ = [
    "Enclosed",
    "Member",
    "NewWorkflow",
    "Part",
    "Policy",
    "Submitted",
    "Workflow",
    "WorkflowState",
    "WorkflowWithMembers",
    "chain",
    "chord",
    "group",
]


class Policy(str, enum.Enum):
    """When the synthesis of a chord runs."""

    #: All members have succeeded. With a deadline: at that, or when all have ended, on those that have succeeded.
    ALL = "all"
    #: The first member has succeeded; the others are not waited for.
    ANY = "any"
    #: All members have ended, whatever their ends.
    ALWAYS = "always"


_POLICIES = {
    Policy.ALL: wire.SYNTHESIS_POLICY_ALL,
    Policy.ANY: wire.SYNTHESIS_POLICY_ANY,
    Policy.ALWAYS: wire.SYNTHESIS_POLICY_ALWAYS,
}


@dataclass(frozen=True)
class Part:
    """Several jobs behind or beside each other: what ``chain``, ``group`` and ``chord`` make. They may stand in each other, 16
    deep."""

    #: As it goes over the wire.
    proto: wire.WorkflowPart


#: A part of a workflow. Of a job in one its id, parent and dedupe key are left out: the workflow gives it an id, and makes repeats
#: harmless.
Enclosed = Union[NewJob, Part]


def chain(*parts: Enclosed) -> Part:
    """Each part begins when all jobs of the one before it have succeeded, and is handed their results."""
    return Part(wire.WorkflowPart(chain=wire.WorkflowChain(parts=map(_part, parts))))


def group(*parts: Enclosed) -> Part:
    """All parts begin at once."""
    return Part(wire.WorkflowPart(group=wire.WorkflowGroup(parts=map(_part, parts))))


def chord(
    members: Iterable[Enclosed],
    synthesis: NewJob,
    *,
    policy: Policy = Policy.ALL,
    at_least: Optional[int] = None,
    deadline: Optional[Seconds] = None,
    leave_the_rest: bool = False,
) -> Part:
    """All members begin at once; ``synthesis`` is handed their results, each once, in declared order.

    :param policy: when the synthesis runs.
    :param at_least: instead: once all members have ended and so many have succeeded.
    :param deadline: so long after the submission it runs on what is there.
    :param leave_the_rest: members that it does not wait for go on. Else they are cancelled.
    :raises ValueError: if both ``policy`` and ``at_least`` say something, or ``at_least`` is none.
    """
    if at_least is not None and (policy is not Policy.ALL or at_least < 1):
        raise ValueError("at_least is a number from 1 on, and there is no `policy` beside it")
    made = wire.WorkflowChord(
        members=map(_part, members),
        synthesis=_bare(synthesis),
        policy=_POLICIES[Policy(policy)] if at_least is None else wire.SYNTHESIS_POLICY_AT_LEAST,
        at_least=at_least or 0,
        on_deadline=wire.ON_DEADLINE_LEAVE if leave_the_rest else wire.ON_DEADLINE_UNSPECIFIED,
    )
    if deadline is not None:
        made.deadline.CopyFrom(duration(deadline))
    return Part(wire.WorkflowPart(chord=made))


def _part(part: Enclosed) -> wire.WorkflowPart:
    return wire.WorkflowPart(job=_bare(part)) if isinstance(part, NewJob) else part.proto


def _bare(job: NewJob) -> job_pb2.JobSpec:
    spec = job.spec()
    for name in ("job_id", "parent_id", "dedupe_key"):
        spec.ClearField(name)
    return spec


@dataclass(frozen=True)
class NewWorkflow:
    """A workflow to be submitted. It has its id from the start, so that the same value submitted again is the same workflow."""

    #: What it consists of.
    part: Enclosed
    #: For people.
    name: str = ""
    #: Made by ``new_job_id``; to send a call of an earlier process again.
    id: str = field(default_factory=new_job_id)

    def request(self, validate_only: bool = False) -> wire.SubmitWorkflowRequest:
        """The submission for the wire.

        :raises TypeError: if a payload is neither bytes nor text nor JSON. :raises ValueError: as ``NewJob.spec``.
        """
        return wire.SubmitWorkflowRequest(
            workflow_id=self.id, name=self.name, workflow=_part(self.part), validate_only=validate_only
        )


class WorkflowState(str, enum.Enum):
    """Where a workflow stands. All but the first are final, and change by a requeue only."""

    #: A member has not ended.
    RUNNING = "running"
    #: All of its results are there.
    SUCCEEDED = "succeeded"
    #: A result of it cannot be; ``reason`` names the members that failed.
    DEAD = "dead"
    #: It was cancelled.
    CANCELLED = "cancelled"
    #: A state that this version of the package does not know.
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether it changes no more, but for a requeue."""
        return self in (WorkflowState.SUCCEEDED, WorkflowState.DEAD, WorkflowState.CANCELLED)

    def __str__(self) -> str:
        return self.value


def _workflow_state(number: int) -> WorkflowState:
    try:
        return WorkflowState(wire.WorkflowState.Name(number).removeprefix("WORKFLOW_STATE_").lower())
    except ValueError:
        return WorkflowState.UNKNOWN


@dataclass(frozen=True)
class Workflow:
    """A workflow as the server keeps it."""

    #: A UUID v7.
    id: str
    #: For people; empty: none.
    name: str
    #: Where it stands.
    state: WorkflowState
    #: From 1; rises by one when a final one comes back.
    round: int
    #: A synthesis runs, or ran, on less than its policy asks for.
    partial: bool
    #: Somebody wants it to end.
    cancel_requested: bool
    #: Why it stands where it stands, in a sentence.
    reason: str
    #: How many members it has.
    total: int
    #: How many of them have ended.
    done: int
    #: How many members are in each state, by the name of the state.
    members_by_state: Mapping[str, int]
    #: When it was submitted.
    create_time: datetime
    #: When it became final. None: it is not.
    finish_time: Optional[datetime]
    #: Everything else.
    proto: wire.Workflow

    @classmethod
    def of(cls, workflow: wire.Workflow) -> "Workflow":
        """From the wire."""
        return cls(
            id=workflow.id,
            name=workflow.name,
            state=_workflow_state(workflow.state),
            round=workflow.round,
            partial=workflow.partial,
            cancel_requested=workflow.cancel_requested,
            reason=workflow.reason,
            total=workflow.total,
            done=workflow.done,
            members_by_state=dict(workflow.members_by_state),
            create_time=instant(workflow.create_time),
            finish_time=instant(workflow.finish_time) if workflow.HasField("finish_time") else None,
            proto=workflow,
        )


@dataclass(frozen=True)
class Member:
    """A job of a workflow."""

    #: From 0, in declared order.
    place: int
    #: The job.
    job_id: str
    #: Its kind.
    kind: str
    #: Where it stands. ``UNKNOWN``: the job was deleted.
    state: JobState
    #: Why, in a sentence.
    reason: str


@dataclass(frozen=True)
class WorkflowWithMembers:
    """A workflow with its members."""

    #: As it stands.
    workflow: Workflow
    #: By place.
    members: Tuple[Member, ...]
    #: With its shape.
    proto: wire.GetWorkflowResponse

    @classmethod
    def of(cls, answer: wire.GetWorkflowResponse) -> "WorkflowWithMembers":
        """From the wire."""
        members = [
            Member(place=one.place, job_id=one.job_id, kind=one.kind, state=_state(one.state), reason=one.reason)
            for one in answer.members
        ]
        return cls(workflow=workflow_of("GetWorkflow", answer), members=tuple(members), proto=answer)


@dataclass(frozen=True)
class Submitted:
    """A workflow that is stored."""

    #: As it stands.
    workflow: Workflow
    #: It was there before this call, with the same content; nothing was stored.
    deduplicated: bool


#: Answers that have a workflow.
_Answer = Union[
    wire.SubmitWorkflowResponse,
    wire.GetWorkflowResponse,
    wire.WatchWorkflowResponse,
    wire.CancelWorkflowResponse,
    wire.RequeueMemberResponse,
]


def workflow_of(rpc: str, answer: _Answer) -> Workflow:
    """The workflow of an answer."""
    if not answer.HasField("workflow"):
        raise UnexpectedAnswer(f"the answer to {rpc} has no workflow")
    return Workflow.of(answer.workflow)


class WatchedWorkflow:
    """Which messages of a watch are told: those that differ from the one before, and the final one last."""

    def __init__(self) -> None:
        self._told: Optional[Workflow] = None
        #: The final state was told.
        self.at_end = False

    def take(self, answer: wire.WatchWorkflowResponse) -> Optional[Workflow]:
        """The workflow of a message, unless it is no news."""
        workflow = workflow_of("WatchWorkflow", answer)
        self.at_end = workflow.state.is_final
        if self._told == workflow:
            return None
        self._told = workflow
        return workflow
