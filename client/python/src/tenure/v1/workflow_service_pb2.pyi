import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tenure.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SynthesisPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SYNTHESIS_POLICY_UNSPECIFIED: _ClassVar[SynthesisPolicy]
    SYNTHESIS_POLICY_ALL: _ClassVar[SynthesisPolicy]
    SYNTHESIS_POLICY_AT_LEAST: _ClassVar[SynthesisPolicy]
    SYNTHESIS_POLICY_ANY: _ClassVar[SynthesisPolicy]
    SYNTHESIS_POLICY_ALWAYS: _ClassVar[SynthesisPolicy]

class OnDeadline(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DEADLINE_UNSPECIFIED: _ClassVar[OnDeadline]
    ON_DEADLINE_CANCEL: _ClassVar[OnDeadline]
    ON_DEADLINE_LEAVE: _ClassVar[OnDeadline]

class WorkflowState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKFLOW_STATE_UNSPECIFIED: _ClassVar[WorkflowState]
    WORKFLOW_STATE_RUNNING: _ClassVar[WorkflowState]
    WORKFLOW_STATE_SUCCEEDED: _ClassVar[WorkflowState]
    WORKFLOW_STATE_DEAD: _ClassVar[WorkflowState]
    WORKFLOW_STATE_CANCELLED: _ClassVar[WorkflowState]
SYNTHESIS_POLICY_UNSPECIFIED: SynthesisPolicy
SYNTHESIS_POLICY_ALL: SynthesisPolicy
SYNTHESIS_POLICY_AT_LEAST: SynthesisPolicy
SYNTHESIS_POLICY_ANY: SynthesisPolicy
SYNTHESIS_POLICY_ALWAYS: SynthesisPolicy
ON_DEADLINE_UNSPECIFIED: OnDeadline
ON_DEADLINE_CANCEL: OnDeadline
ON_DEADLINE_LEAVE: OnDeadline
WORKFLOW_STATE_UNSPECIFIED: WorkflowState
WORKFLOW_STATE_RUNNING: WorkflowState
WORKFLOW_STATE_SUCCEEDED: WorkflowState
WORKFLOW_STATE_DEAD: WorkflowState
WORKFLOW_STATE_CANCELLED: WorkflowState

class WorkflowPart(_message.Message):
    __slots__ = ("job", "chain", "group", "chord")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CHORD_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.JobSpec
    chain: WorkflowChain
    group: WorkflowGroup
    chord: WorkflowChord
    def __init__(self, job: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., chain: _Optional[_Union[WorkflowChain, _Mapping]] = ..., group: _Optional[_Union[WorkflowGroup, _Mapping]] = ..., chord: _Optional[_Union[WorkflowChord, _Mapping]] = ...) -> None: ...

class WorkflowChain(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[WorkflowPart]
    def __init__(self, parts: _Optional[_Iterable[_Union[WorkflowPart, _Mapping]]] = ...) -> None: ...

class WorkflowGroup(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[WorkflowPart]
    def __init__(self, parts: _Optional[_Iterable[_Union[WorkflowPart, _Mapping]]] = ...) -> None: ...

class WorkflowChord(_message.Message):
    __slots__ = ("members", "synthesis", "policy", "at_least", "deadline", "on_deadline")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SYNTHESIS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ON_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[WorkflowPart]
    synthesis: _job_pb2.JobSpec
    policy: SynthesisPolicy
    at_least: int
    deadline: _duration_pb2.Duration
    on_deadline: OnDeadline
    def __init__(self, members: _Optional[_Iterable[_Union[WorkflowPart, _Mapping]]] = ..., synthesis: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., policy: _Optional[_Union[SynthesisPolicy, str]] = ..., at_least: _Optional[int] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_deadline: _Optional[_Union[OnDeadline, str]] = ...) -> None: ...

class Workflow(_message.Message):
    __slots__ = ("id", "name", "producer", "state", "round", "partial", "cancel_requested", "create_time", "finish_time", "reason", "total", "done", "members_by_state")
    class MembersByStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_BY_STATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    producer: str
    state: WorkflowState
    round: int
    partial: bool
    cancel_requested: bool
    create_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    reason: str
    total: int
    done: int
    members_by_state: _containers.ScalarMap[str, int]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., producer: _Optional[str] = ..., state: _Optional[_Union[WorkflowState, str]] = ..., round: _Optional[int] = ..., partial: bool = ..., cancel_requested: bool = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., total: _Optional[int] = ..., done: _Optional[int] = ..., members_by_state: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WorkflowMember(_message.Message):
    __slots__ = ("place", "job_id", "kind", "state", "reason")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    place: int
    job_id: str
    kind: str
    state: _job_pb2.JobState
    reason: str
    def __init__(self, place: _Optional[int] = ..., job_id: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[_Union[_job_pb2.JobState, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class WorkflowShape(_message.Message):
    __slots__ = ("place", "chain", "group", "chord")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CHORD_FIELD_NUMBER: _ClassVar[int]
    place: int
    chain: WorkflowShapes
    group: WorkflowShapes
    chord: WorkflowChordShape
    def __init__(self, place: _Optional[int] = ..., chain: _Optional[_Union[WorkflowShapes, _Mapping]] = ..., group: _Optional[_Union[WorkflowShapes, _Mapping]] = ..., chord: _Optional[_Union[WorkflowChordShape, _Mapping]] = ...) -> None: ...

class WorkflowShapes(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[WorkflowShape]
    def __init__(self, parts: _Optional[_Iterable[_Union[WorkflowShape, _Mapping]]] = ...) -> None: ...

class WorkflowChordShape(_message.Message):
    __slots__ = ("members", "synthesis", "policy", "at_least", "deadline", "on_deadline", "partial", "missing")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SYNTHESIS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ON_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[WorkflowShape]
    synthesis: int
    policy: SynthesisPolicy
    at_least: int
    deadline: _timestamp_pb2.Timestamp
    on_deadline: OnDeadline
    partial: bool
    missing: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, members: _Optional[_Iterable[_Union[WorkflowShape, _Mapping]]] = ..., synthesis: _Optional[int] = ..., policy: _Optional[_Union[SynthesisPolicy, str]] = ..., at_least: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., on_deadline: _Optional[_Union[OnDeadline, str]] = ..., partial: bool = ..., missing: _Optional[_Iterable[int]] = ...) -> None: ...

class SubmitWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "name", "workflow", "validate_only")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    name: str
    workflow: WorkflowPart
    validate_only: bool
    def __init__(self, workflow_id: _Optional[str] = ..., name: _Optional[str] = ..., workflow: _Optional[_Union[WorkflowPart, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class SubmitWorkflowResponse(_message.Message):
    __slots__ = ("workflow", "deduplicated")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    deduplicated: bool
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ..., deduplicated: bool = ...) -> None: ...

class GetWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id",)
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    def __init__(self, workflow_id: _Optional[str] = ...) -> None: ...

class GetWorkflowResponse(_message.Message):
    __slots__ = ("workflow", "shape", "members")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    shape: WorkflowShape
    members: _containers.RepeatedCompositeFieldContainer[WorkflowMember]
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ..., shape: _Optional[_Union[WorkflowShape, _Mapping]] = ..., members: _Optional[_Iterable[_Union[WorkflowMember, _Mapping]]] = ...) -> None: ...

class ListWorkflowsRequest(_message.Message):
    __slots__ = ("states", "page_size", "page_token")
    STATES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[WorkflowState]
    page_size: int
    page_token: str
    def __init__(self, states: _Optional[_Iterable[_Union[WorkflowState, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListWorkflowsResponse(_message.Message):
    __slots__ = ("workflows", "next_page_token")
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    workflows: _containers.RepeatedCompositeFieldContainer[Workflow]
    next_page_token: str
    def __init__(self, workflows: _Optional[_Iterable[_Union[Workflow, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id",)
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    def __init__(self, workflow_id: _Optional[str] = ...) -> None: ...

class WatchWorkflowResponse(_message.Message):
    __slots__ = ("workflow",)
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ...) -> None: ...

class CancelWorkflowRequest(_message.Message):
    __slots__ = ("workflow_id", "reason")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    reason: str
    def __init__(self, workflow_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelWorkflowResponse(_message.Message):
    __slots__ = ("workflow", "changed")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    changed: bool
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ..., changed: bool = ...) -> None: ...

class RequeueMemberRequest(_message.Message):
    __slots__ = ("workflow_id", "place")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    workflow_id: str
    place: int
    def __init__(self, workflow_id: _Optional[str] = ..., place: _Optional[int] = ...) -> None: ...

class RequeueMemberResponse(_message.Message):
    __slots__ = ("workflow", "changed")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    changed: bool
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ..., changed: bool = ...) -> None: ...
