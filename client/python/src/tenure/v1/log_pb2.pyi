from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_STREAM_UNSPECIFIED: _ClassVar[LogStream]
    LOG_STREAM_STDOUT: _ClassVar[LogStream]
    LOG_STREAM_STDERR: _ClassVar[LogStream]
LOG_STREAM_UNSPECIFIED: LogStream
LOG_STREAM_STDOUT: LogStream
LOG_STREAM_STDERR: LogStream

class LogChunk(_message.Message):
    __slots__ = ("stream", "offset", "data", "dropped")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    stream: LogStream
    offset: int
    data: bytes
    dropped: int
    def __init__(self, stream: _Optional[_Union[LogStream, str]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., dropped: _Optional[int] = ...) -> None: ...

class LogTailPart(_message.Message):
    __slots__ = ("total", "data")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    total: int
    data: bytes
    def __init__(self, total: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class LogPlace(_message.Message):
    __slots__ = ("stdout_offset", "stderr_offset")
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stdout_offset: int
    stderr_offset: int
    def __init__(self, stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ...) -> None: ...

class LogAttempt(_message.Message):
    __slots__ = ("token", "attempt", "node", "ended", "note")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    token: int
    attempt: int
    node: str
    ended: bool
    note: str
    def __init__(self, token: _Optional[int] = ..., attempt: _Optional[int] = ..., node: _Optional[str] = ..., ended: bool = ..., note: _Optional[str] = ...) -> None: ...
