import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tenure.node.v1 import node_service_pb2 as _node_service_pb2
from tenure.node.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkClock(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORK_CLOCK_UNSPECIFIED: _ClassVar[WorkClock]
    WORK_CLOCK_BOOTTIME: _ClassVar[WorkClock]
    WORK_CLOCK_MONOTONIC: _ClassVar[WorkClock]

class StopWorkReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_WORK_REASON_UNSPECIFIED: _ClassVar[StopWorkReason]
    STOP_WORK_REASON_CANCELLED: _ClassVar[StopWorkReason]
    STOP_WORK_REASON_TIME_LIMIT: _ClassVar[StopWorkReason]
    STOP_WORK_REASON_DRAINED: _ClassVar[StopWorkReason]
    STOP_WORK_REASON_LEASE_LOST: _ClassVar[StopWorkReason]
WORK_CLOCK_UNSPECIFIED: WorkClock
WORK_CLOCK_BOOTTIME: WorkClock
WORK_CLOCK_MONOTONIC: WorkClock
STOP_WORK_REASON_UNSPECIFIED: StopWorkReason
STOP_WORK_REASON_CANCELLED: StopWorkReason
STOP_WORK_REASON_TIME_LIMIT: StopWorkReason
STOP_WORK_REASON_DRAINED: StopWorkReason
STOP_WORK_REASON_LEASE_LOST: StopWorkReason

class WorkerMessage(_message.Message):
    __slots__ = ("hello", "ended", "leaving")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    hello: WorkerHello
    ended: WorkEnded
    leaving: WorkerLeaving
    def __init__(self, hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., ended: _Optional[_Union[WorkEnded, _Mapping]] = ..., leaving: _Optional[_Union[WorkerLeaving, _Mapping]] = ...) -> None: ...

class WorkerHello(_message.Message):
    __slots__ = ("kinds", "concurrency", "library", "inputs", "sockets")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    concurrency: int
    library: str
    inputs: bool
    sockets: bool
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., concurrency: _Optional[int] = ..., library: _Optional[str] = ..., inputs: bool = ..., sockets: bool = ...) -> None: ...

class WorkerLeaving(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkEnded(_message.Message):
    __slots__ = ("token", "succeeded", "failed", "stopped", "detached", "usage")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    token: int
    succeeded: WorkSucceeded
    failed: WorkFailed
    stopped: WorkStopped
    detached: WorkDetached
    usage: _containers.ScalarMap[str, int]
    def __init__(self, token: _Optional[int] = ..., succeeded: _Optional[_Union[WorkSucceeded, _Mapping]] = ..., failed: _Optional[_Union[WorkFailed, _Mapping]] = ..., stopped: _Optional[_Union[WorkStopped, _Mapping]] = ..., detached: _Optional[_Union[WorkDetached, _Mapping]] = ..., usage: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WorkSucceeded(_message.Message):
    __slots__ = ("has_result", "data", "content_type")
    HAS_RESULT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    has_result: bool
    data: bytes
    content_type: str
    def __init__(self, has_result: bool = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class WorkFailed(_message.Message):
    __slots__ = ("permanent", "error", "retry_after", "throttled_slot")
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_SLOT_FIELD_NUMBER: _ClassVar[int]
    permanent: bool
    error: str
    retry_after: _duration_pb2.Duration
    throttled_slot: str
    def __init__(self, permanent: bool = ..., error: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., throttled_slot: _Optional[str] = ...) -> None: ...

class WorkStopped(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkDetached(_message.Message):
    __slots__ = ("detach", "state")
    DETACH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    detach: _session_pb2.Detach
    state: _session_pb2.ResultBytes
    def __init__(self, detach: _Optional[_Union[_session_pb2.Detach, _Mapping]] = ..., state: _Optional[_Union[_session_pb2.ResultBytes, _Mapping]] = ...) -> None: ...

class WorkMessage(_message.Message):
    __slots__ = ("welcome", "work", "deadline", "stop", "left", "wrap_up", "inputs")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WRAP_UP_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    welcome: WorkerWelcome
    work: Work
    deadline: WorkDeadline
    stop: StopWork
    left: WorkerLeft
    wrap_up: WrapUpWork
    inputs: WorkInputs
    def __init__(self, welcome: _Optional[_Union[WorkerWelcome, _Mapping]] = ..., work: _Optional[_Union[Work, _Mapping]] = ..., deadline: _Optional[_Union[WorkDeadline, _Mapping]] = ..., stop: _Optional[_Union[StopWork, _Mapping]] = ..., left: _Optional[_Union[WorkerLeft, _Mapping]] = ..., wrap_up: _Optional[_Union[WrapUpWork, _Mapping]] = ..., inputs: _Optional[_Union[WorkInputs, _Mapping]] = ...) -> None: ...

class WorkInputs(_message.Message):
    __slots__ = ("token", "results", "state")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    token: int
    results: _containers.RepeatedCompositeFieldContainer[_node_service_pb2.InputResult]
    state: _session_pb2.ResultBytes
    def __init__(self, token: _Optional[int] = ..., results: _Optional[_Iterable[_Union[_node_service_pb2.InputResult, _Mapping]]] = ..., state: _Optional[_Union[_session_pb2.ResultBytes, _Mapping]] = ...) -> None: ...

class WorkerLeft(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerWelcome(_message.Message):
    __slots__ = ("node", "clock")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    node: str
    clock: WorkClock
    def __init__(self, node: _Optional[str] = ..., clock: _Optional[_Union[WorkClock, str]] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("job_id", "token", "kind", "attempt", "tenant", "payload", "content_type", "idempotency_key", "parent_id", "traceparent", "tracestate", "hard_time_limit", "grace", "gone_by_us", "indexes", "soft_time_limit", "checkpoint", "partial", "input_results", "socket")
    class IndexesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    HARD_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    GONE_BY_US_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    SOFT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESULTS_FIELD_NUMBER: _ClassVar[int]
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    kind: str
    attempt: int
    tenant: str
    payload: bytes
    content_type: str
    idempotency_key: str
    parent_id: str
    traceparent: str
    tracestate: str
    hard_time_limit: _duration_pb2.Duration
    grace: _duration_pb2.Duration
    gone_by_us: int
    indexes: _containers.ScalarMap[str, str]
    soft_time_limit: _duration_pb2.Duration
    checkpoint: bytes
    partial: bytes
    input_results: int
    socket: str
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ..., tenant: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., parent_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., hard_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., gone_by_us: _Optional[int] = ..., indexes: _Optional[_Mapping[str, str]] = ..., soft_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., checkpoint: _Optional[bytes] = ..., partial: _Optional[bytes] = ..., input_results: _Optional[int] = ..., socket: _Optional[str] = ...) -> None: ...

class WrapUpWork(_message.Message):
    __slots__ = ("token", "grace")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    token: int
    grace: _duration_pb2.Duration
    def __init__(self, token: _Optional[int] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WorkDeadline(_message.Message):
    __slots__ = ("token", "gone_by_us")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GONE_BY_US_FIELD_NUMBER: _ClassVar[int]
    token: int
    gone_by_us: int
    def __init__(self, token: _Optional[int] = ..., gone_by_us: _Optional[int] = ...) -> None: ...

class StopWork(_message.Message):
    __slots__ = ("token", "reason", "grace")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    token: int
    reason: StopWorkReason
    grace: _duration_pb2.Duration
    def __init__(self, token: _Optional[int] = ..., reason: _Optional[_Union[StopWorkReason, str]] = ..., grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
