import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "store", "schema_version", "epoch", "leader", "start_time", "uptime", "live_jobs", "leases", "sessions", "reloads", "durability", "standing", "leader_address", "terms", "renewal_age")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    LIVE_JOBS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    RELOADS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    RENEWAL_AGE_FIELD_NUMBER: _ClassVar[int]
    version: str
    store: str
    schema_version: int
    epoch: int
    leader: bool
    start_time: _timestamp_pb2.Timestamp
    uptime: _duration_pb2.Duration
    live_jobs: int
    leases: int
    sessions: int
    reloads: int
    durability: str
    standing: str
    leader_address: str
    terms: int
    renewal_age: _duration_pb2.Duration
    def __init__(self, version: _Optional[str] = ..., store: _Optional[str] = ..., schema_version: _Optional[int] = ..., epoch: _Optional[int] = ..., leader: bool = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., live_jobs: _Optional[int] = ..., leases: _Optional[int] = ..., sessions: _Optional[int] = ..., reloads: _Optional[int] = ..., durability: _Optional[str] = ..., standing: _Optional[str] = ..., leader_address: _Optional[str] = ..., terms: _Optional[int] = ..., renewal_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CheckInvariantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckInvariantsResponse(_message.Message):
    __slots__ = ("violations", "checked", "findings")
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    violations: _containers.RepeatedCompositeFieldContainer[InvariantViolation]
    checked: _containers.RepeatedScalarFieldContainer[str]
    findings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, violations: _Optional[_Iterable[_Union[InvariantViolation, _Mapping]]] = ..., checked: _Optional[_Iterable[str]] = ..., findings: _Optional[_Iterable[str]] = ...) -> None: ...

class InvariantViolation(_message.Message):
    __slots__ = ("invariant", "subject", "detail")
    INVARIANT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    invariant: str
    subject: str
    detail: str
    def __init__(self, invariant: _Optional[str] = ..., subject: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...
