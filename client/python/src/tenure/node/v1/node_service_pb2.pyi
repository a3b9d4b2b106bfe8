import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tenure.node.v1 import session_pb2 as _session_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import job_service_pb2 as _job_service_pb2
from tenure.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WaitAnswer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_ANSWER_UNSPECIFIED: _ClassVar[WaitAnswer]
    WAIT_ANSWER_PARKED: _ClassVar[WaitAnswer]
    WAIT_ANSWER_GO: _ClassVar[WaitAnswer]
    WAIT_ANSWER_MUST_DETACH: _ClassVar[WaitAnswer]
WAIT_ANSWER_UNSPECIFIED: WaitAnswer
WAIT_ANSWER_PARKED: WaitAnswer
WAIT_ANSWER_GO: WaitAnswer
WAIT_ANSWER_MUST_DETACH: WaitAnswer

class LeaseName(_message.Message):
    __slots__ = ("node", "job_id", "token")
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    node: str
    job_id: str
    token: int
    def __init__(self, node: _Optional[str] = ..., job_id: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class EnqueueChildrenRequest(_message.Message):
    __slots__ = ("lease", "jobs")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobSpec]
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[_job_pb2.JobSpec, _Mapping]]] = ...) -> None: ...

class EnqueueChildrenResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_job_service_pb2.EnqueueBatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[_job_service_pb2.EnqueueBatchItem, _Mapping]]] = ...) -> None: ...

class WaitTerms(_message.Message):
    __slots__ = ("job_ids", "policy", "at_least", "max_wait")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    policy: _job_pb2.WaitPolicy
    at_least: int
    max_wait: _duration_pb2.Duration
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., policy: _Optional[_Union[_job_pb2.WaitPolicy, str]] = ..., at_least: _Optional[int] = ..., max_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class BeginWaitRequest(_message.Message):
    __slots__ = ("lease", "wait_epoch", "terms")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    wait_epoch: int
    terms: WaitTerms
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., wait_epoch: _Optional[int] = ..., terms: _Optional[_Union[WaitTerms, _Mapping]] = ...) -> None: ...

class BeginWaitResponse(_message.Message):
    __slots__ = ("answer", "kept")
    class KeptEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    answer: WaitAnswer
    kept: _containers.ScalarMap[str, int]
    def __init__(self, answer: _Optional[_Union[WaitAnswer, str]] = ..., kept: _Optional[_Mapping[str, int]] = ...) -> None: ...

class GetChildResultsRequest(_message.Message):
    __slots__ = ("lease", "job_ids", "from_index", "takes_uploaded")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    TAKES_UPLOADED_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    from_index: int
    takes_uploaded: bool
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., job_ids: _Optional[_Iterable[str]] = ..., from_index: _Optional[int] = ..., takes_uploaded: bool = ...) -> None: ...

class GetChildResultsResponse(_message.Message):
    __slots__ = ("results", "next_index", "state")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[InputResult]
    next_index: int
    state: _session_pb2.ResultBytes
    def __init__(self, results: _Optional[_Iterable[_Union[InputResult, _Mapping]]] = ..., next_index: _Optional[int] = ..., state: _Optional[_Union[_session_pb2.ResultBytes, _Mapping]] = ...) -> None: ...

class InputResult(_message.Message):
    __slots__ = ("index", "job_id", "state", "result", "error", "partial", "uploaded")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_FIELD_NUMBER: _ClassVar[int]
    index: int
    job_id: str
    state: _job_pb2.JobState
    result: _session_pb2.ResultBytes
    error: str
    partial: bool
    uploaded: _session_pb2.UploadedResult
    def __init__(self, index: _Optional[int] = ..., job_id: _Optional[str] = ..., state: _Optional[_Union[_job_pb2.JobState, str]] = ..., result: _Optional[_Union[_session_pb2.ResultBytes, _Mapping]] = ..., error: _Optional[str] = ..., partial: bool = ..., uploaded: _Optional[_Union[_session_pb2.UploadedResult, _Mapping]] = ...) -> None: ...

class UploadResultRequest(_message.Message):
    __slots__ = ("head", "data")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    head: UploadHead
    data: bytes
    def __init__(self, head: _Optional[_Union[UploadHead, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class UploadHead(_message.Message):
    __slots__ = ("lease", "result")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    result: _session_pb2.UploadedResult
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., result: _Optional[_Union[_session_pb2.UploadedResult, _Mapping]] = ...) -> None: ...

class UploadResultResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchResultRequest(_message.Message):
    __slots__ = ("lease", "job_id")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    job_id: str
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., job_id: _Optional[str] = ...) -> None: ...

class FetchResultResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class PushLogRequest(_message.Message):
    __slots__ = ("opening", "chunk", "no_log", "log_end")
    OPENING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    NO_LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    opening: PushLogOpening
    chunk: _log_pb2.LogChunk
    no_log: NoLog
    log_end: LogEnd
    def __init__(self, opening: _Optional[_Union[PushLogOpening, _Mapping]] = ..., chunk: _Optional[_Union[_log_pb2.LogChunk, _Mapping]] = ..., no_log: _Optional[_Union[NoLog, _Mapping]] = ..., log_end: _Optional[_Union[LogEnd, _Mapping]] = ...) -> None: ...

class PushLogOpening(_message.Message):
    __slots__ = ("lease", "want_id")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WANT_ID_FIELD_NUMBER: _ClassVar[int]
    lease: LeaseName
    want_id: int
    def __init__(self, lease: _Optional[_Union[LeaseName, _Mapping]] = ..., want_id: _Optional[int] = ...) -> None: ...

class NoLog(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PushLogResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
