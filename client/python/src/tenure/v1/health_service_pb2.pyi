import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tenure.v1 import fleet_service_pb2 as _fleet_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueSignal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_SIGNAL_UNSPECIFIED: _ClassVar[QueueSignal]
    QUEUE_SIGNAL_IDLE: _ClassVar[QueueSignal]
    QUEUE_SIGNAL_MOVING: _ClassVar[QueueSignal]
    QUEUE_SIGNAL_BURST: _ClassVar[QueueSignal]
    QUEUE_SIGNAL_STUCK: _ClassVar[QueueSignal]
QUEUE_SIGNAL_UNSPECIFIED: QueueSignal
QUEUE_SIGNAL_IDLE: QueueSignal
QUEUE_SIGNAL_MOVING: QueueSignal
QUEUE_SIGNAL_BURST: QueueSignal
QUEUE_SIGNAL_STUCK: QueueSignal

class GetQueueHealthRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class GetQueueHealthResponse(_message.Message):
    __slots__ = ("kinds", "attention", "pressure", "nodes_live", "nodes_silent")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    PRESSURE_FIELD_NUMBER: _ClassVar[int]
    NODES_LIVE_FIELD_NUMBER: _ClassVar[int]
    NODES_SILENT_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[KindHealth]
    attention: _containers.RepeatedScalarFieldContainer[str]
    pressure: _containers.RepeatedCompositeFieldContainer[NodePressure]
    nodes_live: int
    nodes_silent: int
    def __init__(self, kinds: _Optional[_Iterable[_Union[KindHealth, _Mapping]]] = ..., attention: _Optional[_Iterable[str]] = ..., pressure: _Optional[_Iterable[_Union[NodePressure, _Mapping]]] = ..., nodes_live: _Optional[int] = ..., nodes_silent: _Optional[int] = ...) -> None: ...

class KindHealth(_message.Message):
    __slots__ = ("kind", "depth", "oldest_age", "running", "dead_today", "nodes_able", "scheduled", "dead", "signal", "head_reason", "paused", "arrival_per_minute", "grant_per_minute", "completion_per_minute", "last_grant_ago", "dead_by_day")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DEAD_TODAY_FIELD_NUMBER: _ClassVar[int]
    NODES_ABLE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    HEAD_REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    GRANT_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    LAST_GRANT_AGO_FIELD_NUMBER: _ClassVar[int]
    DEAD_BY_DAY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    depth: int
    oldest_age: _duration_pb2.Duration
    running: int
    dead_today: int
    nodes_able: int
    scheduled: int
    dead: int
    signal: QueueSignal
    head_reason: str
    paused: bool
    arrival_per_minute: float
    grant_per_minute: float
    completion_per_minute: float
    last_grant_ago: _duration_pb2.Duration
    dead_by_day: _containers.RepeatedCompositeFieldContainer[DeadDay]
    def __init__(self, kind: _Optional[str] = ..., depth: _Optional[int] = ..., oldest_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., running: _Optional[int] = ..., dead_today: _Optional[int] = ..., nodes_able: _Optional[int] = ..., scheduled: _Optional[int] = ..., dead: _Optional[int] = ..., signal: _Optional[_Union[QueueSignal, str]] = ..., head_reason: _Optional[str] = ..., paused: bool = ..., arrival_per_minute: _Optional[float] = ..., grant_per_minute: _Optional[float] = ..., completion_per_minute: _Optional[float] = ..., last_grant_ago: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dead_by_day: _Optional[_Iterable[_Union[DeadDay, _Mapping]]] = ...) -> None: ...

class DeadDay(_message.Message):
    __slots__ = ("date", "count")
    DATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    date: str
    count: int
    def __init__(self, date: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class NodePressure(_message.Message):
    __slots__ = ("node", "closed_groups")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    node: str
    closed_groups: _containers.RepeatedCompositeFieldContainer[_fleet_service_pb2.ClosedGroup]
    def __init__(self, node: _Optional[str] = ..., closed_groups: _Optional[_Iterable[_Union[_fleet_service_pb2.ClosedGroup, _Mapping]]] = ...) -> None: ...
