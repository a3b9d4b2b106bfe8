import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnqueueRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.JobSpec
    def __init__(self, job: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("job", "deduplicated")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    deduplicated: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., deduplicated: bool = ...) -> None: ...

class EnqueueBatchRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.JobSpec]
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.JobSpec, _Mapping]]] = ...) -> None: ...

class EnqueueBatchResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[EnqueueBatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[EnqueueBatchItem, _Mapping]]] = ...) -> None: ...

class EnqueueBatchItem(_message.Message):
    __slots__ = ("enqueued", "refused")
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    enqueued: EnqueueResponse
    refused: _status_pb2.Status
    def __init__(self, enqueued: _Optional[_Union[EnqueueResponse, _Mapping]] = ..., refused: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("kind", "states", "tenant", "dedupe_key", "parent_id", "node", "page_size", "page_token", "id_part", "workflow_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_KEY_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_PART_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    states: _containers.RepeatedScalarFieldContainer[_job_pb2.JobState]
    tenant: str
    dedupe_key: str
    parent_id: str
    node: str
    page_size: int
    page_token: str
    id_part: str
    workflow_id: str
    def __init__(self, kind: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_job_pb2.JobState, str]]] = ..., tenant: _Optional[str] = ..., dedupe_key: _Optional[str] = ..., parent_id: _Optional[str] = ..., node: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., id_part: _Optional[str] = ..., workflow_id: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExplainJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ExplainJobResponse(_message.Message):
    __slots__ = ("job", "slots", "nodes", "ahead", "ahead_job_ids", "attempts", "remedies", "earmarks", "summary", "node_groups", "nodes_omitted", "node_slots", "line", "start")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    AHEAD_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REMEDIES_FIELD_NUMBER: _ClassVar[int]
    EARMARKS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    NODE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    NODES_OMITTED_FIELD_NUMBER: _ClassVar[int]
    NODE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    slots: _containers.RepeatedCompositeFieldContainer[SlotExplanation]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeExplanation]
    ahead: int
    ahead_job_ids: _containers.RepeatedScalarFieldContainer[str]
    attempts: _containers.RepeatedCompositeFieldContainer[_job_pb2.Attempt]
    remedies: _containers.RepeatedScalarFieldContainer[str]
    earmarks: _containers.RepeatedCompositeFieldContainer[Earmark]
    summary: str
    node_groups: _containers.RepeatedCompositeFieldContainer[NodeGroup]
    nodes_omitted: int
    node_slots: _containers.RepeatedCompositeFieldContainer[SlotTotal]
    line: LineAhead
    start: StartBracket
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., slots: _Optional[_Iterable[_Union[SlotExplanation, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeExplanation, _Mapping]]] = ..., ahead: _Optional[int] = ..., ahead_job_ids: _Optional[_Iterable[str]] = ..., attempts: _Optional[_Iterable[_Union[_job_pb2.Attempt, _Mapping]]] = ..., remedies: _Optional[_Iterable[str]] = ..., earmarks: _Optional[_Iterable[_Union[Earmark, _Mapping]]] = ..., summary: _Optional[str] = ..., node_groups: _Optional[_Iterable[_Union[NodeGroup, _Mapping]]] = ..., nodes_omitted: _Optional[int] = ..., node_slots: _Optional[_Iterable[_Union[SlotTotal, _Mapping]]] = ..., line: _Optional[_Union[LineAhead, _Mapping]] = ..., start: _Optional[_Union[StartBracket, _Mapping]] = ...) -> None: ...

class LineAhead(_message.Message):
    __slots__ = ("slot", "classes", "jobs", "jobs_by_share")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    JOBS_BY_SHARE_FIELD_NUMBER: _ClassVar[int]
    slot: str
    classes: int
    jobs: int
    jobs_by_share: int
    def __init__(self, slot: _Optional[str] = ..., classes: _Optional[int] = ..., jobs: _Optional[int] = ..., jobs_by_share: _Optional[int] = ...) -> None: ...

class StartBracket(_message.Message):
    __slots__ = ("earliest", "likely", "late", "latest", "assumes")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LIKELY_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    ASSUMES_FIELD_NUMBER: _ClassVar[int]
    earliest: _timestamp_pb2.Timestamp
    likely: _timestamp_pb2.Timestamp
    late: _timestamp_pb2.Timestamp
    latest: _timestamp_pb2.Timestamp
    assumes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, earliest: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., likely: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., late: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., latest: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., assumes: _Optional[_Iterable[str]] = ...) -> None: ...

class Earmark(_message.Message):
    __slots__ = ("job_id", "node", "slots", "by")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    node: str
    slots: _job_pb2.Needs
    by: _timestamp_pb2.Timestamp
    def __init__(self, job_id: _Optional[str] = ..., node: _Optional[str] = ..., slots: _Optional[_Union[_job_pb2.Needs, _Mapping]] = ..., by: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class NodeGroup(_message.Message):
    __slots__ = ("labels", "slots", "nodes", "examples", "fits", "reason", "parameters", "message")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SlotsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    slots: _containers.ScalarMap[str, int]
    nodes: int
    examples: _containers.RepeatedScalarFieldContainer[str]
    fits: bool
    reason: str
    parameters: _containers.ScalarMap[str, str]
    message: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., slots: _Optional[_Mapping[str, int]] = ..., nodes: _Optional[int] = ..., examples: _Optional[_Iterable[str]] = ..., fits: bool = ..., reason: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., message: _Optional[str] = ...) -> None: ...

class SlotTotal(_message.Message):
    __slots__ = ("slot", "needed", "nodes", "nodes_with_room", "used", "capacity")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_WITH_ROOM_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    slot: str
    needed: int
    nodes: int
    nodes_with_room: int
    used: int
    capacity: int
    def __init__(self, slot: _Optional[str] = ..., needed: _Optional[int] = ..., nodes: _Optional[int] = ..., nodes_with_room: _Optional[int] = ..., used: _Optional[int] = ..., capacity: _Optional[int] = ...) -> None: ...

class SlotExplanation(_message.Message):
    __slots__ = ("slot", "node", "needed", "used", "capacity", "paused", "holders")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    node: str
    needed: int
    used: int
    capacity: int
    paused: bool
    holders: _containers.RepeatedCompositeFieldContainer[SlotHolder]
    def __init__(self, slot: _Optional[str] = ..., node: _Optional[str] = ..., needed: _Optional[int] = ..., used: _Optional[int] = ..., capacity: _Optional[int] = ..., paused: bool = ..., holders: _Optional[_Iterable[_Union[SlotHolder, _Mapping]]] = ...) -> None: ...

class SlotHolder(_message.Message):
    __slots__ = ("job_id", "kind", "node", "amount", "held_for", "unreaped")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    UNREAPED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    kind: str
    node: str
    amount: int
    held_for: _duration_pb2.Duration
    unreaped: bool
    def __init__(self, job_id: _Optional[str] = ..., kind: _Optional[str] = ..., node: _Optional[str] = ..., amount: _Optional[int] = ..., held_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unreaped: bool = ...) -> None: ...

class NodeExplanation(_message.Message):
    __slots__ = ("node", "fits", "reason", "parameters", "message")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    node: str
    fits: bool
    reason: str
    parameters: _containers.ScalarMap[str, str]
    message: str
    def __init__(self, node: _Optional[str] = ..., fits: bool = ..., reason: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ..., message: _Optional[str] = ...) -> None: ...

class WaitJobRequest(_message.Message):
    __slots__ = ("job_id", "timeout")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    timeout: _duration_pb2.Duration
    def __init__(self, job_id: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WaitJobResponse(_message.Message):
    __slots__ = ("job", "done")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    done: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., done: bool = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class WatchJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job", "changed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    changed: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., changed: bool = ...) -> None: ...

class RequeueJobRequest(_message.Message):
    __slots__ = ("job_id", "force")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    force: bool
    def __init__(self, job_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class RequeueJobResponse(_message.Message):
    __slots__ = ("job", "changed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    changed: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ReprioritizeJobRequest(_message.Message):
    __slots__ = ("job_id", "priority")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    priority: int
    def __init__(self, job_id: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class ReprioritizeJobResponse(_message.Message):
    __slots__ = ("job", "changed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    changed: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., changed: bool = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("job_id", "validate_only")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    validate_only: bool
    def __init__(self, job_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class GetResultRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetResultResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _job_pb2.Result
    def __init__(self, result: _Optional[_Union[_job_pb2.Result, _Mapping]] = ...) -> None: ...

class ListAttemptsRequest(_message.Message):
    __slots__ = ("job_id", "page_size", "page_token")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    page_size: int
    page_token: str
    def __init__(self, job_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAttemptsResponse(_message.Message):
    __slots__ = ("attempts", "next_page_token")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[_job_pb2.Attempt]
    next_page_token: str
    def __init__(self, attempts: _Optional[_Iterable[_Union[_job_pb2.Attempt, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ("job_id", "token", "attempt", "follow", "stream", "place", "tail_lines")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    attempt: int
    follow: bool
    stream: _log_pb2.LogStream
    place: _log_pb2.LogPlace
    tail_lines: int
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., attempt: _Optional[int] = ..., follow: bool = ..., stream: _Optional[_Union[_log_pb2.LogStream, str]] = ..., place: _Optional[_Union[_log_pb2.LogPlace, _Mapping]] = ..., tail_lines: _Optional[int] = ...) -> None: ...

class ReadLogResponse(_message.Message):
    __slots__ = ("attempt", "chunk")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    attempt: _log_pb2.LogAttempt
    chunk: _log_pb2.LogChunk
    def __init__(self, attempt: _Optional[_Union[_log_pb2.LogAttempt, _Mapping]] = ..., chunk: _Optional[_Union[_log_pb2.LogChunk, _Mapping]] = ...) -> None: ...

class ReadResultRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ReadResultResponse(_message.Message):
    __slots__ = ("head", "data")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    head: _job_pb2.ResultHead
    data: bytes
    def __init__(self, head: _Optional[_Union[_job_pb2.ResultHead, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...
