import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_SCHEDULED: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_BLOCKED: _ClassVar[JobState]
    JOB_STATE_WAITING: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_DEAD: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
    JOB_STATE_EXPIRED: _ClassVar[JobState]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED_RETRYABLE: _ClassVar[Outcome]
    OUTCOME_FAILED_PERMANENT: _ClassVar[Outcome]
    OUTCOME_TIMED_OUT: _ClassVar[Outcome]
    OUTCOME_STALLED: _ClassVar[Outcome]
    OUTCOME_LOST: _ClassVar[Outcome]
    OUTCOME_RETURNED: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_DETACHED: _ClassVar[Outcome]

class RequirementOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUIREMENT_OPERATOR_UNSPECIFIED: _ClassVar[RequirementOperator]
    REQUIREMENT_OPERATOR_IN: _ClassVar[RequirementOperator]
    REQUIREMENT_OPERATOR_NOT_IN: _ClassVar[RequirementOperator]
    REQUIREMENT_OPERATOR_EXISTS: _ClassVar[RequirementOperator]
    REQUIREMENT_OPERATOR_NOT_EXISTS: _ClassVar[RequirementOperator]

class OnParent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_PARENT_UNSPECIFIED: _ClassVar[OnParent]
    ON_PARENT_CANCEL: _ClassVar[OnParent]
    ON_PARENT_KEEP: _ClassVar[OnParent]

class WaitPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_POLICY_UNSPECIFIED: _ClassVar[WaitPolicy]
    WAIT_POLICY_ALL: _ClassVar[WaitPolicy]
    WAIT_POLICY_ANY: _ClassVar[WaitPolicy]
    WAIT_POLICY_AT_LEAST: _ClassVar[WaitPolicy]
    WAIT_POLICY_FIRST_FAILURE: _ClassVar[WaitPolicy]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_BLOCKED: JobState
JOB_STATE_WAITING: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_DEAD: JobState
JOB_STATE_CANCELLED: JobState
JOB_STATE_EXPIRED: JobState
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED_RETRYABLE: Outcome
OUTCOME_FAILED_PERMANENT: Outcome
OUTCOME_TIMED_OUT: Outcome
OUTCOME_STALLED: Outcome
OUTCOME_LOST: Outcome
OUTCOME_RETURNED: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_DETACHED: Outcome
REQUIREMENT_OPERATOR_UNSPECIFIED: RequirementOperator
REQUIREMENT_OPERATOR_IN: RequirementOperator
REQUIREMENT_OPERATOR_NOT_IN: RequirementOperator
REQUIREMENT_OPERATOR_EXISTS: RequirementOperator
REQUIREMENT_OPERATOR_NOT_EXISTS: RequirementOperator
ON_PARENT_UNSPECIFIED: OnParent
ON_PARENT_CANCEL: OnParent
ON_PARENT_KEEP: OnParent
WAIT_POLICY_UNSPECIFIED: WaitPolicy
WAIT_POLICY_ALL: WaitPolicy
WAIT_POLICY_ANY: WaitPolicy
WAIT_POLICY_AT_LEAST: WaitPolicy
WAIT_POLICY_FIRST_FAILURE: WaitPolicy

class Payload(_message.Message):
    __slots__ = ("data", "content_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    content_type: str
    def __init__(self, data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class SlotAmount(_message.Message):
    __slots__ = ("slot", "amount")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    amount: int
    def __init__(self, slot: _Optional[str] = ..., amount: _Optional[int] = ...) -> None: ...

class Needs(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotAmount]
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotAmount, _Mapping]]] = ...) -> None: ...

class Requirement(_message.Message):
    __slots__ = ("label", "operator", "values")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    label: str
    operator: RequirementOperator
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, label: _Optional[str] = ..., operator: _Optional[_Union[RequirementOperator, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("kind", "payload", "job_id", "dedupe_key", "tenant", "priority", "run_at", "delay", "stale_after", "labels", "selector", "needs", "hard_time_limit", "parent_id", "traceparent", "tracestate", "concurrency_key", "requirements", "prefer", "on_parent_cancel", "on_parent_lost", "soft_time_limit")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    STALE_AFTER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    HARD_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    ON_PARENT_CANCEL_FIELD_NUMBER: _ClassVar[int]
    ON_PARENT_LOST_FIELD_NUMBER: _ClassVar[int]
    SOFT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    payload: Payload
    job_id: str
    dedupe_key: str
    tenant: str
    priority: int
    run_at: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    stale_after: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    selector: _containers.ScalarMap[str, str]
    needs: Needs
    hard_time_limit: _duration_pb2.Duration
    parent_id: str
    traceparent: str
    tracestate: str
    concurrency_key: str
    requirements: _containers.RepeatedCompositeFieldContainer[Requirement]
    prefer: _containers.RepeatedCompositeFieldContainer[Requirement]
    on_parent_cancel: OnParent
    on_parent_lost: OnParent
    soft_time_limit: _duration_pb2.Duration
    def __init__(self, kind: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ..., job_id: _Optional[str] = ..., dedupe_key: _Optional[str] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., stale_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., selector: _Optional[_Mapping[str, str]] = ..., needs: _Optional[_Union[Needs, _Mapping]] = ..., hard_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., parent_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., concurrency_key: _Optional[str] = ..., requirements: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ..., prefer: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ..., on_parent_cancel: _Optional[_Union[OnParent, str]] = ..., on_parent_lost: _Optional[_Union[OnParent, str]] = ..., soft_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "kind", "tenant", "producer", "state", "version", "priority", "dedupe_key", "dedupe_held", "labels", "selector", "needs", "hard_time_limit", "parent_id", "root_id", "round", "failures", "losses", "returns", "max_failures", "max_losses", "attempt", "token", "node", "cancel_requested", "create_time", "run_at", "stale_at", "start_time", "finish_time", "reason", "deferral", "traceparent", "payload_size", "waits", "tracestate", "requirements", "concurrency_key", "prefer", "waiting_for", "soft_time_limit", "progress", "cron", "workflow_id", "workflow_place")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_KEY_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_HELD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    HARD_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    RETURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSSES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    STALE_AT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEFERRAL_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_SIZE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    SOFT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_PLACE_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    tenant: str
    producer: str
    state: JobState
    version: int
    priority: int
    dedupe_key: str
    dedupe_held: bool
    labels: _containers.ScalarMap[str, str]
    selector: _containers.ScalarMap[str, str]
    needs: Needs
    hard_time_limit: _duration_pb2.Duration
    parent_id: str
    root_id: str
    round: int
    failures: int
    losses: int
    returns: int
    max_failures: int
    max_losses: int
    attempt: int
    token: int
    node: str
    cancel_requested: bool
    create_time: _timestamp_pb2.Timestamp
    run_at: _timestamp_pb2.Timestamp
    stale_at: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    reason: str
    deferral: Deferral
    traceparent: str
    payload_size: int
    waits: _containers.RepeatedCompositeFieldContainer[DeferralShare]
    tracestate: str
    requirements: _containers.RepeatedCompositeFieldContainer[Requirement]
    concurrency_key: str
    prefer: _containers.RepeatedCompositeFieldContainer[Requirement]
    waiting_for: ChildWait
    soft_time_limit: _duration_pb2.Duration
    progress: JobProgress
    cron: CronFiring
    workflow_id: str
    workflow_place: int
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., tenant: _Optional[str] = ..., producer: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., version: _Optional[int] = ..., priority: _Optional[int] = ..., dedupe_key: _Optional[str] = ..., dedupe_held: bool = ..., labels: _Optional[_Mapping[str, str]] = ..., selector: _Optional[_Mapping[str, str]] = ..., needs: _Optional[_Union[Needs, _Mapping]] = ..., hard_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., parent_id: _Optional[str] = ..., root_id: _Optional[str] = ..., round: _Optional[int] = ..., failures: _Optional[int] = ..., losses: _Optional[int] = ..., returns: _Optional[int] = ..., max_failures: _Optional[int] = ..., max_losses: _Optional[int] = ..., attempt: _Optional[int] = ..., token: _Optional[int] = ..., node: _Optional[str] = ..., cancel_requested: bool = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., stale_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., deferral: _Optional[_Union[Deferral, _Mapping]] = ..., traceparent: _Optional[str] = ..., payload_size: _Optional[int] = ..., waits: _Optional[_Iterable[_Union[DeferralShare, _Mapping]]] = ..., tracestate: _Optional[str] = ..., requirements: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ..., concurrency_key: _Optional[str] = ..., prefer: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ..., waiting_for: _Optional[_Union[ChildWait, _Mapping]] = ..., soft_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., progress: _Optional[_Union[JobProgress, _Mapping]] = ..., cron: _Optional[_Union[CronFiring, _Mapping]] = ..., workflow_id: _Optional[str] = ..., workflow_place: _Optional[int] = ...) -> None: ...

class JobProgress(_message.Message):
    __slots__ = ("percent", "message", "update_time")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    percent: int
    message: str
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, percent: _Optional[int] = ..., message: _Optional[str] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ChildWait(_message.Message):
    __slots__ = ("children", "unfinished", "unfinished_job_ids", "policy", "at_least", "until", "parked")
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    children: int
    unfinished: int
    unfinished_job_ids: _containers.RepeatedScalarFieldContainer[str]
    policy: WaitPolicy
    at_least: int
    until: _timestamp_pb2.Timestamp
    parked: bool
    def __init__(self, children: _Optional[int] = ..., unfinished: _Optional[int] = ..., unfinished_job_ids: _Optional[_Iterable[str]] = ..., policy: _Optional[_Union[WaitPolicy, str]] = ..., at_least: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., parked: bool = ...) -> None: ...

class CronFiring(_message.Message):
    __slots__ = ("entry", "instant")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    entry: str
    instant: _timestamp_pb2.Timestamp
    def __init__(self, entry: _Optional[str] = ..., instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Deferral(_message.Message):
    __slots__ = ("reason", "parameters", "message", "count", "since", "history")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    reason: str
    parameters: _containers.ScalarMap[str, str]
    message: str
    count: int
    since: _timestamp_pb2.Timestamp
    history: _containers.RepeatedCompositeFieldContainer[DeferralShare]
    def __init__(self, reason: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., history: _Optional[_Iterable[_Union[DeferralShare, _Mapping]]] = ...) -> None: ...

class DeferralShare(_message.Message):
    __slots__ = ("reason", "message", "count", "duration")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    count: int
    duration: _duration_pb2.Duration
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("job_id", "token", "attempt", "round", "node", "outcome", "cause", "error", "exit_code", "grant_time", "start_time", "end_time", "started", "usage", "partial", "checkpoint_size")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    GRANT_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SIZE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    attempt: int
    round: int
    node: str
    outcome: Outcome
    cause: str
    error: str
    exit_code: int
    grant_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    started: bool
    usage: _containers.ScalarMap[str, int]
    partial: bool
    checkpoint_size: int
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., attempt: _Optional[int] = ..., round: _Optional[int] = ..., node: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., cause: _Optional[str] = ..., error: _Optional[str] = ..., exit_code: _Optional[int] = ..., grant_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started: bool = ..., usage: _Optional[_Mapping[str, int]] = ..., partial: bool = ..., checkpoint_size: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("job_id", "token", "data", "content_type", "create_time", "expire_time", "partial")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    data: bytes
    content_type: str
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    partial: bool
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., partial: bool = ...) -> None: ...

class ResultHead(_message.Message):
    __slots__ = ("job_id", "token", "content_type", "size", "sha256", "create_time", "expire_time", "partial")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    content_type: str
    size: int
    sha256: bytes
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    partial: bool
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., content_type: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., partial: bool = ...) -> None: ...
