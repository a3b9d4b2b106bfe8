import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetInboxRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInboxResponse(_message.Message):
    __slots__ = ("waiting", "oldest_age", "refusals", "broken")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    waiting: int
    oldest_age: _duration_pb2.Duration
    refusals: int
    broken: int
    def __init__(self, waiting: _Optional[int] = ..., oldest_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., refusals: _Optional[int] = ..., broken: _Optional[int] = ...) -> None: ...

class ListInboxRefusalsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListInboxRefusalsResponse(_message.Message):
    __slots__ = ("refusals", "next_page_token")
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    refusals: _containers.RepeatedCompositeFieldContainer[InboxRefusal]
    next_page_token: str
    def __init__(self, refusals: _Optional[_Iterable[_Union[InboxRefusal, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class InboxRefusal(_message.Message):
    __slots__ = ("row", "role", "producer", "insert_time", "refuse_time", "job_id", "kind", "dedupe_key", "reason", "message")
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    INSERT_TIME_FIELD_NUMBER: _ClassVar[int]
    REFUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    row: int
    role: str
    producer: str
    insert_time: _timestamp_pb2.Timestamp
    refuse_time: _timestamp_pb2.Timestamp
    job_id: str
    kind: str
    dedupe_key: str
    reason: str
    message: str
    def __init__(self, row: _Optional[int] = ..., role: _Optional[str] = ..., producer: _Optional[str] = ..., insert_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., refuse_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job_id: _Optional[str] = ..., kind: _Optional[str] = ..., dedupe_key: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
