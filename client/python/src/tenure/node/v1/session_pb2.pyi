import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import log_pb2 as _log_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LeasePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_PHASE_UNSPECIFIED: _ClassVar[LeasePhase]
    LEASE_PHASE_GRANTED: _ClassVar[LeasePhase]
    LEASE_PHASE_ACCEPTED: _ClassVar[LeasePhase]
    LEASE_PHASE_STARTED: _ClassVar[LeasePhase]
    LEASE_PHASE_PARKED: _ClassVar[LeasePhase]
    LEASE_PHASE_STOPPING: _ClassVar[LeasePhase]
    LEASE_PHASE_FINISHED: _ClassVar[LeasePhase]
    LEASE_PHASE_UNKILLABLE: _ClassVar[LeasePhase]

class FinishedOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISHED_OUTCOME_UNSPECIFIED: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_SUCCEEDED: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_FAILED: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_FAILED_PERMANENT: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_TIMED_OUT: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_REVOKED: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_LOST: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_STALLED: _ClassVar[FinishedOutcome]
    FINISHED_OUTCOME_DETACHED: _ClassVar[FinishedOutcome]

class ResumeVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESUME_VERDICT_UNSPECIFIED: _ClassVar[ResumeVerdict]
    RESUME_VERDICT_GO: _ClassVar[ResumeVerdict]
    RESUME_VERDICT_MUST_DETACH: _ClassVar[ResumeVerdict]

class RevokeReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVOKE_REASON_UNSPECIFIED: _ClassVar[RevokeReason]
    REVOKE_REASON_NOT_LIVE: _ClassVar[RevokeReason]
    REVOKE_REASON_CANCELLED: _ClassVar[RevokeReason]
    REVOKE_REASON_UNANSWERED: _ClassVar[RevokeReason]
    REVOKE_REASON_DRAINED: _ClassVar[RevokeReason]

class ReportKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORT_KIND_UNSPECIFIED: _ClassVar[ReportKind]
    REPORT_KIND_FINISHED: _ClassVar[ReportKind]
    REPORT_KIND_RETURNED: _ClassVar[ReportKind]
    REPORT_KIND_REAPED: _ClassVar[ReportKind]

class StoredVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STORED_VERDICT_UNSPECIFIED: _ClassVar[StoredVerdict]
    STORED_VERDICT_STORED: _ClassVar[StoredVerdict]
    STORED_VERDICT_LEASE_LOST: _ClassVar[StoredVerdict]
    STORED_VERDICT_BROKEN: _ClassVar[StoredVerdict]
LEASE_PHASE_UNSPECIFIED: LeasePhase
LEASE_PHASE_GRANTED: LeasePhase
LEASE_PHASE_ACCEPTED: LeasePhase
LEASE_PHASE_STARTED: LeasePhase
LEASE_PHASE_PARKED: LeasePhase
LEASE_PHASE_STOPPING: LeasePhase
LEASE_PHASE_FINISHED: LeasePhase
LEASE_PHASE_UNKILLABLE: LeasePhase
FINISHED_OUTCOME_UNSPECIFIED: FinishedOutcome
FINISHED_OUTCOME_SUCCEEDED: FinishedOutcome
FINISHED_OUTCOME_FAILED: FinishedOutcome
FINISHED_OUTCOME_FAILED_PERMANENT: FinishedOutcome
FINISHED_OUTCOME_TIMED_OUT: FinishedOutcome
FINISHED_OUTCOME_REVOKED: FinishedOutcome
FINISHED_OUTCOME_LOST: FinishedOutcome
FINISHED_OUTCOME_STALLED: FinishedOutcome
FINISHED_OUTCOME_DETACHED: FinishedOutcome
RESUME_VERDICT_UNSPECIFIED: ResumeVerdict
RESUME_VERDICT_GO: ResumeVerdict
RESUME_VERDICT_MUST_DETACH: ResumeVerdict
REVOKE_REASON_UNSPECIFIED: RevokeReason
REVOKE_REASON_NOT_LIVE: RevokeReason
REVOKE_REASON_CANCELLED: RevokeReason
REVOKE_REASON_UNANSWERED: RevokeReason
REVOKE_REASON_DRAINED: RevokeReason
REPORT_KIND_UNSPECIFIED: ReportKind
REPORT_KIND_FINISHED: ReportKind
REPORT_KIND_RETURNED: ReportKind
REPORT_KIND_REAPED: ReportKind
STORED_VERDICT_UNSPECIFIED: StoredVerdict
STORED_VERDICT_STORED: StoredVerdict
STORED_VERDICT_LEASE_LOST: StoredVerdict
STORED_VERDICT_BROKEN: StoredVerdict

class NodeMessage(_message.Message):
    __slots__ = ("seq", "seen", "hello", "heartbeat", "reports", "draining")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    seq: int
    seen: int
    hello: Hello
    heartbeat: Heartbeat
    reports: Reports
    draining: Draining
    def __init__(self, seq: _Optional[int] = ..., seen: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., reports: _Optional[_Union[Reports, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("seq", "seen", "welcome", "grants", "renewed", "revoke", "stored", "drain", "configure", "resume", "want_log")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    WANT_LOG_FIELD_NUMBER: _ClassVar[int]
    seq: int
    seen: int
    welcome: Welcome
    grants: Grants
    renewed: Renewed
    revoke: Revoke
    stored: Stored
    drain: Drain
    configure: Configure
    resume: Resume
    want_log: WantLog
    def __init__(self, seq: _Optional[int] = ..., seen: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., grants: _Optional[_Union[Grants, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., revoke: _Optional[_Union[Revoke, _Mapping]] = ..., stored: _Optional[_Union[Stored, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., configure: _Optional[_Union[Configure, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., want_log: _Optional[_Union[WantLog, _Mapping]] = ...) -> None: ...

class HeldLease(_message.Message):
    __slots__ = ("job_id", "token", "phase", "elapsed", "wait_epoch")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    WAIT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    phase: LeasePhase
    elapsed: _duration_pb2.Duration
    wait_epoch: int
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., phase: _Optional[_Union[LeasePhase, str]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_epoch: _Optional[int] = ...) -> None: ...

class UnstoredReport(_message.Message):
    __slots__ = ("job_id", "token")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("node_name", "instance", "boot_id", "incarnation", "stream", "protocol", "features", "labels", "slots", "kinds", "host", "pressure", "max_epoch_seen", "held", "unstored", "credits", "agent_version")
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
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    MAX_EPOCH_SEEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    UNSTORED_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    instance: str
    boot_id: str
    incarnation: int
    stream: int
    protocol: int
    features: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    slots: _containers.ScalarMap[str, int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    host: HostInfo
    pressure: PressureReading
    max_epoch_seen: int
    held: _containers.RepeatedCompositeFieldContainer[HeldLease]
    unstored: _containers.RepeatedCompositeFieldContainer[UnstoredReport]
    credits: int
    agent_version: str
    def __init__(self, node_name: _Optional[str] = ..., instance: _Optional[str] = ..., boot_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., stream: _Optional[int] = ..., protocol: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., slots: _Optional[_Mapping[str, int]] = ..., kinds: _Optional[_Iterable[str]] = ..., host: _Optional[_Union[HostInfo, _Mapping]] = ..., pressure: _Optional[_Union[PressureReading, _Mapping]] = ..., max_epoch_seen: _Optional[int] = ..., held: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ..., unstored: _Optional[_Iterable[_Union[UnstoredReport, _Mapping]]] = ..., credits: _Optional[int] = ..., agent_version: _Optional[str] = ...) -> None: ...

class HostInfo(_message.Message):
    __slots__ = ("cpus", "memory_bytes", "disk_free_bytes", "os", "arch", "containment")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OS_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    CONTAINMENT_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    memory_bytes: int
    disk_free_bytes: int
    os: str
    arch: str
    containment: str
    def __init__(self, cpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., os: _Optional[str] = ..., arch: _Optional[str] = ..., containment: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("held", "pressure")
    HELD_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[HeldLease]
    pressure: PressureReading
    def __init__(self, held: _Optional[_Iterable[_Union[HeldLease, _Mapping]]] = ..., pressure: _Optional[_Union[PressureReading, _Mapping]] = ...) -> None: ...

class PressureReading(_message.Message):
    __slots__ = ("generation", "closed", "caps", "weight", "unknown_signals")
    class CapsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    CAPS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    closed: _containers.RepeatedCompositeFieldContainer[ClosedGroup]
    caps: _containers.ScalarMap[str, int]
    weight: int
    unknown_signals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., closed: _Optional[_Iterable[_Union[ClosedGroup, _Mapping]]] = ..., caps: _Optional[_Mapping[str, int]] = ..., weight: _Optional[int] = ..., unknown_signals: _Optional[_Iterable[str]] = ...) -> None: ...

class ClosedGroup(_message.Message):
    __slots__ = ("refuse", "rule", "signal", "observed", "threshold", "closed_for")
    REFUSE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FOR_FIELD_NUMBER: _ClassVar[int]
    refuse: str
    rule: str
    signal: str
    observed: float
    threshold: float
    closed_for: _duration_pb2.Duration
    def __init__(self, refuse: _Optional[str] = ..., rule: _Optional[str] = ..., signal: _Optional[str] = ..., observed: _Optional[float] = ..., threshold: _Optional[float] = ..., closed_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Reports(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("job_id", "token", "accepted", "started", "progress", "finished", "reaped", "returned", "checkpoint")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REAPED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    accepted: Accepted
    started: Started
    progress: Progress
    finished: Finished
    reaped: Reaped
    returned: Returned
    checkpoint: Checkpoint
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., reaped: _Optional[_Union[Reaped, _Mapping]] = ..., returned: _Optional[_Union[Returned, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Started(_message.Message):
    __slots__ = ("elapsed",)
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    elapsed: _duration_pb2.Duration
    def __init__(self, elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("percent", "message")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    percent: int
    message: str
    def __init__(self, percent: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("outcome", "exit_code", "signal", "cause", "error", "retry_after", "result", "ran_for", "throttled", "usage", "partial", "detach", "checkpoint", "uploaded", "log_tail")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RAN_FOR_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    DETACH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_FIELD_NUMBER: _ClassVar[int]
    LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
    outcome: FinishedOutcome
    exit_code: int
    signal: int
    cause: str
    error: str
    retry_after: _duration_pb2.Duration
    result: ResultBytes
    ran_for: _duration_pb2.Duration
    throttled: Throttled
    usage: _containers.ScalarMap[str, int]
    partial: bool
    detach: Detach
    checkpoint: Checkpoint
    uploaded: UploadedResult
    log_tail: LogTail
    def __init__(self, outcome: _Optional[_Union[FinishedOutcome, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., cause: _Optional[str] = ..., error: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., result: _Optional[_Union[ResultBytes, _Mapping]] = ..., ran_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., throttled: _Optional[_Union[Throttled, _Mapping]] = ..., usage: _Optional[_Mapping[str, int]] = ..., partial: bool = ..., detach: _Optional[_Union[Detach, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., uploaded: _Optional[_Union[UploadedResult, _Mapping]] = ..., log_tail: _Optional[_Union[LogTail, _Mapping]] = ...) -> None: ...

class LogTail(_message.Message):
    __slots__ = ("stdout", "stderr")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    stdout: _log_pb2.LogTailPart
    stderr: _log_pb2.LogTailPart
    def __init__(self, stdout: _Optional[_Union[_log_pb2.LogTailPart, _Mapping]] = ..., stderr: _Optional[_Union[_log_pb2.LogTailPart, _Mapping]] = ...) -> None: ...

class Detach(_message.Message):
    __slots__ = ("job_ids", "policy", "at_least", "max_wait", "same_node")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    SAME_NODE_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    policy: _job_pb2.WaitPolicy
    at_least: int
    max_wait: _duration_pb2.Duration
    same_node: bool
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., policy: _Optional[_Union[_job_pb2.WaitPolicy, str]] = ..., at_least: _Optional[int] = ..., max_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., same_node: bool = ...) -> None: ...

class Throttled(_message.Message):
    __slots__ = ("slot", "retry_after")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    slot: str
    retry_after: _duration_pb2.Duration
    def __init__(self, slot: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResultBytes(_message.Message):
    __slots__ = ("data", "content_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    content_type: str
    def __init__(self, data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class UploadedResult(_message.Message):
    __slots__ = ("size", "content_type", "sha256")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    size: int
    content_type: str
    sha256: bytes
    def __init__(self, size: _Optional[int] = ..., content_type: _Optional[str] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Reaped(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Returned(_message.Message):
    __slots__ = ("rule", "observed", "threshold", "generation", "retry_after", "started", "usage", "checkpoint", "result")
    class UsageEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RULE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    rule: str
    observed: float
    threshold: float
    generation: int
    retry_after: _duration_pb2.Duration
    started: bool
    usage: _containers.ScalarMap[str, int]
    checkpoint: Checkpoint
    result: ResultBytes
    def __init__(self, rule: _Optional[str] = ..., observed: _Optional[float] = ..., threshold: _Optional[float] = ..., generation: _Optional[int] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., started: bool = ..., usage: _Optional[_Mapping[str, int]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., result: _Optional[_Union[ResultBytes, _Mapping]] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("restart", "deadline")
    RESTART_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    restart: bool
    deadline: _duration_pb2.Duration
    def __init__(self, restart: bool = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("epoch", "heartbeat_interval", "anchor_seq", "renewed", "reconnect_min", "reconnect_max", "warnings", "max_result_bytes", "max_checkpoint_bytes", "max_uploaded_result_bytes")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_SEQ_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_MIN_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_MAX_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_UPLOADED_RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_interval: _duration_pb2.Duration
    anchor_seq: int
    renewed: _containers.RepeatedCompositeFieldContainer[RenewedLease]
    reconnect_min: _duration_pb2.Duration
    reconnect_max: _duration_pb2.Duration
    warnings: _containers.RepeatedScalarFieldContainer[str]
    max_result_bytes: int
    max_checkpoint_bytes: int
    max_uploaded_result_bytes: int
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., anchor_seq: _Optional[int] = ..., renewed: _Optional[_Iterable[_Union[RenewedLease, _Mapping]]] = ..., reconnect_min: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reconnect_max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., max_result_bytes: _Optional[int] = ..., max_checkpoint_bytes: _Optional[int] = ..., max_uploaded_result_bytes: _Optional[int] = ...) -> None: ...

class Grants(_message.Message):
    __slots__ = ("anchor_seq", "grants")
    ANCHOR_SEQ_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    anchor_seq: int
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, anchor_seq: _Optional[int] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("job_id", "token", "kind", "attempt", "lease", "first_lease", "start_window", "hard_time_limit", "stale_in", "slots", "payload", "content_type", "idempotency_key", "parent_id", "traceparent", "tenant", "tracestate", "input_results", "soft_time_limit", "progress_timeout", "checkpoint", "partial")
    class SlotsEntry(_message.Message):
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
    LEASE_FIELD_NUMBER: _ClassVar[int]
    FIRST_LEASE_FIELD_NUMBER: _ClassVar[int]
    START_WINDOW_FIELD_NUMBER: _ClassVar[int]
    HARD_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    STALE_IN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESULTS_FIELD_NUMBER: _ClassVar[int]
    SOFT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    kind: str
    attempt: int
    lease: _duration_pb2.Duration
    first_lease: _duration_pb2.Duration
    start_window: _duration_pb2.Duration
    hard_time_limit: _duration_pb2.Duration
    stale_in: _duration_pb2.Duration
    slots: _containers.ScalarMap[str, int]
    payload: bytes
    content_type: str
    idempotency_key: str
    parent_id: str
    traceparent: str
    tenant: str
    tracestate: str
    input_results: int
    soft_time_limit: _duration_pb2.Duration
    progress_timeout: _duration_pb2.Duration
    checkpoint: Checkpoint
    partial: ResultBytes
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hard_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., stale_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., slots: _Optional[_Mapping[str, int]] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., parent_id: _Optional[str] = ..., traceparent: _Optional[str] = ..., tenant: _Optional[str] = ..., tracestate: _Optional[str] = ..., input_results: _Optional[int] = ..., soft_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., progress_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., partial: _Optional[_Union[ResultBytes, _Mapping]] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("token", "wait_epoch", "verdict")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAIT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    token: int
    wait_epoch: int
    verdict: ResumeVerdict
    def __init__(self, token: _Optional[int] = ..., wait_epoch: _Optional[int] = ..., verdict: _Optional[_Union[ResumeVerdict, str]] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("anchor_seq", "leases")
    ANCHOR_SEQ_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    anchor_seq: int
    leases: _containers.RepeatedCompositeFieldContainer[RenewedLease]
    def __init__(self, anchor_seq: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[RenewedLease, _Mapping]]] = ...) -> None: ...

class RenewedLease(_message.Message):
    __slots__ = ("token", "lease")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    token: int
    lease: _duration_pb2.Duration
    def __init__(self, token: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Revoke(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[RevokedLease]
    def __init__(self, leases: _Optional[_Iterable[_Union[RevokedLease, _Mapping]]] = ...) -> None: ...

class RevokedLease(_message.Message):
    __slots__ = ("token", "reason")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    token: int
    reason: RevokeReason
    def __init__(self, token: _Optional[int] = ..., reason: _Optional[_Union[RevokeReason, str]] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[StoredAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[StoredAnswer, _Mapping]]] = ...) -> None: ...

class StoredAnswer(_message.Message):
    __slots__ = ("token", "report", "verdict", "cause", "job_state")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    JOB_STATE_FIELD_NUMBER: _ClassVar[int]
    token: int
    report: ReportKind
    verdict: StoredVerdict
    cause: str
    job_state: str
    def __init__(self, token: _Optional[int] = ..., report: _Optional[_Union[ReportKind, str]] = ..., verdict: _Optional[_Union[StoredVerdict, str]] = ..., cause: _Optional[str] = ..., job_state: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("deadline",)
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    deadline: _duration_pb2.Duration
    def __init__(self, deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Configure(_message.Message):
    __slots__ = ("heartbeat_interval", "credits_ceiling")
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CREDITS_CEILING_FIELD_NUMBER: _ClassVar[int]
    heartbeat_interval: _duration_pb2.Duration
    credits_ceiling: int
    def __init__(self, heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., credits_ceiling: _Optional[int] = ...) -> None: ...

class WantLog(_message.Message):
    __slots__ = ("job_id", "token", "want_id", "stream", "place", "tail_lines", "follow")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WANT_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: int
    want_id: int
    stream: _log_pb2.LogStream
    place: _log_pb2.LogPlace
    tail_lines: int
    follow: bool
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[int] = ..., want_id: _Optional[int] = ..., stream: _Optional[_Union[_log_pb2.LogStream, str]] = ..., place: _Optional[_Union[_log_pb2.LogPlace, _Mapping]] = ..., tail_lines: _Optional[int] = ..., follow: bool = ...) -> None: ...
