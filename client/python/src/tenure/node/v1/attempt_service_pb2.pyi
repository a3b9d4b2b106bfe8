import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tenure.node.v1 import node_service_pb2 as _node_service_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import job_service_pb2 as _job_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetAttemptRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAttemptResponse(_message.Message):
    __slots__ = ("job_id", "token", "kind", "attempt", "idempotency_key", "tenant", "parent_id", "node", "usage")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    kind: str
    attempt: int
    idempotency_key: str
    tenant: str
    parent_id: str
    node: str
    usage: _containers.ScalarMap[str, int]
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., tenant: _Optional[str] = ..., parent_id: _Optional[str] = ..., node: _Optional[str] = ..., usage: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReportProgressRequest(_message.Message):
    __slots__ = ("percent", "message")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    percent: int
    message: str
    def __init__(self, percent: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ReportProgressResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportUsageRequest(_message.Message):
    __slots__ = ("usage", "report_id")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    USAGE_FIELD_NUMBER: _ClassVar[int]
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.ScalarMap[str, int]
    report_id: str
    def __init__(self, usage: _Optional[_Mapping[str, int]] = ..., report_id: _Optional[str] = ...) -> None: ...

class ReportUsageResponse(_message.Message):
    __slots__ = ("usage",)
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.ScalarMap[str, int]
    def __init__(self, usage: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SaveCheckpointRequest(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class SaveCheckpointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttemptServiceEnqueueChildrenRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobSpec]
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.JobSpec, _Mapping]]] = ...) -> None: ...

class AttemptServiceEnqueueChildrenResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_job_service_pb2.EnqueueBatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[_job_service_pb2.EnqueueBatchItem, _Mapping]]] = ...) -> None: ...

class WaitForJobsRequest(_message.Message):
    __slots__ = ("terms", "wait_id")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    WAIT_ID_FIELD_NUMBER: _ClassVar[int]
    terms: _node_service_pb2.WaitTerms
    wait_id: str
    def __init__(self, terms: _Optional[_Union[_node_service_pb2.WaitTerms, _Mapping]] = ..., wait_id: _Optional[str] = ...) -> None: ...

class WaitForJobsResponse(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: _node_service_pb2.WaitAnswer
    def __init__(self, answer: _Optional[_Union[_node_service_pb2.WaitAnswer, str]] = ...) -> None: ...

class AttemptServiceGetChildResultsRequest(_message.Message):
    __slots__ = ("job_ids", "from_index")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    from_index: int
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., from_index: _Optional[int] = ...) -> None: ...

class AttemptServiceGetChildResultsResponse(_message.Message):
    __slots__ = ("results", "next_index")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_node_service_pb2.InputResult]
    next_index: int
    def __init__(self, results: _Optional[_Iterable[_Union[_node_service_pb2.InputResult, _Mapping]]] = ..., next_index: _Optional[int] = ...) -> None: ...

class CheckLeaseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckLeaseResponse(_message.Message):
    __slots__ = ("live", "remaining", "wrap_up")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    WRAP_UP_FIELD_NUMBER: _ClassVar[int]
    live: bool
    remaining: _duration_pb2.Duration
    wrap_up: bool
    def __init__(self, live: bool = ..., remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wrap_up: bool = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("reason", "permanent", "retry_after", "throttled_slot")
    REASON_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_SLOT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    permanent: bool
    retry_after: _duration_pb2.Duration
    throttled_slot: str
    def __init__(self, reason: _Optional[str] = ..., permanent: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., throttled_slot: _Optional[str] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
