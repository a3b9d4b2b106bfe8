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

class MissedPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSED_POLICY_UNSPECIFIED: _ClassVar[MissedPolicy]
    MISSED_POLICY_SKIP: _ClassVar[MissedPolicy]
    MISSED_POLICY_COALESCE: _ClassVar[MissedPolicy]
    MISSED_POLICY_CATCH_UP: _ClassVar[MissedPolicy]
MISSED_POLICY_UNSPECIFIED: MissedPolicy
MISSED_POLICY_SKIP: MissedPolicy
MISSED_POLICY_COALESCE: MissedPolicy
MISSED_POLICY_CATCH_UP: MissedPolicy

class ComingFiring(_message.Message):
    __slots__ = ("instant", "local_time")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TIME_FIELD_NUMBER: _ClassVar[int]
    instant: _timestamp_pb2.Timestamp
    local_time: str
    def __init__(self, instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., local_time: _Optional[str] = ...) -> None: ...

class MissedFiring(_message.Message):
    __slots__ = ("first", "last", "count", "reason", "message", "record_time")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    first: _timestamp_pb2.Timestamp
    last: _timestamp_pb2.Timestamp
    count: int
    reason: str
    message: str
    record_time: _timestamp_pb2.Timestamp
    def __init__(self, first: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., record_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CronEntry(_message.Message):
    __slots__ = ("name", "kind", "when", "zone", "missed_policy", "catch_up", "jitter", "singleton", "paused", "paused_by", "pause_time", "fired", "missed", "last_job_id", "last_fire_time", "last_instant", "missed_firings", "next", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    MISSED_POLICY_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    SINGLETON_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    LAST_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_INSTANT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIRINGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    when: str
    zone: str
    missed_policy: MissedPolicy
    catch_up: int
    jitter: _duration_pb2.Duration
    singleton: bool
    paused: bool
    paused_by: str
    pause_time: _timestamp_pb2.Timestamp
    fired: int
    missed: int
    last_job_id: str
    last_fire_time: _timestamp_pb2.Timestamp
    last_instant: _timestamp_pb2.Timestamp
    missed_firings: _containers.RepeatedCompositeFieldContainer[MissedFiring]
    next: _containers.RepeatedCompositeFieldContainer[ComingFiring]
    tenant: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., when: _Optional[str] = ..., zone: _Optional[str] = ..., missed_policy: _Optional[_Union[MissedPolicy, str]] = ..., catch_up: _Optional[int] = ..., jitter: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., singleton: bool = ..., paused: bool = ..., paused_by: _Optional[str] = ..., pause_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fired: _Optional[int] = ..., missed: _Optional[int] = ..., last_job_id: _Optional[str] = ..., last_fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., missed_firings: _Optional[_Iterable[_Union[MissedFiring, _Mapping]]] = ..., next: _Optional[_Iterable[_Union[ComingFiring, _Mapping]]] = ..., tenant: _Optional[str] = ...) -> None: ...

class ListCronEntriesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCronEntriesResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[CronEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[CronEntry, _Mapping]]] = ...) -> None: ...

class PauseCronEntryRequest(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: str
    def __init__(self, entry: _Optional[str] = ...) -> None: ...

class PauseCronEntryResponse(_message.Message):
    __slots__ = ("entry", "changed")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    entry: CronEntry
    changed: bool
    def __init__(self, entry: _Optional[_Union[CronEntry, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ResumeCronEntryRequest(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: str
    def __init__(self, entry: _Optional[str] = ...) -> None: ...

class ResumeCronEntryResponse(_message.Message):
    __slots__ = ("entry", "changed")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    entry: CronEntry
    changed: bool
    def __init__(self, entry: _Optional[_Union[CronEntry, _Mapping]] = ..., changed: bool = ...) -> None: ...

class RunCronEntryRequest(_message.Message):
    __slots__ = ("entry", "job_id")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    entry: str
    job_id: str
    def __init__(self, entry: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...

class RunCronEntryResponse(_message.Message):
    __slots__ = ("job", "deduplicated")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    deduplicated: bool
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., deduplicated: bool = ...) -> None: ...
