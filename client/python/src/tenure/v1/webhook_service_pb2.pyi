import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import workflow_service_pb2 as _workflow_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeliveryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_STATE_UNSPECIFIED: _ClassVar[DeliveryState]
    DELIVERY_STATE_WAITING: _ClassVar[DeliveryState]
    DELIVERY_STATE_FAILED: _ClassVar[DeliveryState]
DELIVERY_STATE_UNSPECIFIED: DeliveryState
DELIVERY_STATE_WAITING: DeliveryState
DELIVERY_STATE_FAILED: DeliveryState

class Webhook(_message.Message):
    __slots__ = ("name", "url", "secret", "events", "kinds", "workflows", "gone_time", "waiting", "oldest_wait_time", "failed", "dropped")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    GONE_TIME_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_WAIT_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    secret: str
    events: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    workflows: bool
    gone_time: _timestamp_pb2.Timestamp
    waiting: int
    oldest_wait_time: _timestamp_pb2.Timestamp
    failed: int
    dropped: int
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., secret: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[str]] = ..., workflows: bool = ..., gone_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., waiting: _Optional[int] = ..., oldest_wait_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failed: _Optional[int] = ..., dropped: _Optional[int] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("id", "webhook", "type", "job_id", "workflow_id", "state", "create_time", "tries", "next_time", "fail_time", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_TIME_FIELD_NUMBER: _ClassVar[int]
    FAIL_TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    webhook: str
    type: str
    job_id: str
    workflow_id: str
    state: DeliveryState
    create_time: _timestamp_pb2.Timestamp
    tries: int
    next_time: _timestamp_pb2.Timestamp
    fail_time: _timestamp_pb2.Timestamp
    error: str
    def __init__(self, id: _Optional[str] = ..., webhook: _Optional[str] = ..., type: _Optional[str] = ..., job_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., state: _Optional[_Union[DeliveryState, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tries: _Optional[int] = ..., next_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., fail_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("type", "timestamp", "data")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type: str
    timestamp: _timestamp_pb2.Timestamp
    data: _job_pb2.Job
    def __init__(self, type: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., data: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class WorkflowEvent(_message.Message):
    __slots__ = ("type", "timestamp", "data")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type: str
    timestamp: _timestamp_pb2.Timestamp
    data: _workflow_service_pb2.Workflow
    def __init__(self, type: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., data: _Optional[_Union[_workflow_service_pb2.Workflow, _Mapping]] = ...) -> None: ...

class TestEvent(_message.Message):
    __slots__ = ("type", "timestamp", "data")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type: str
    timestamp: _timestamp_pb2.Timestamp
    data: TestEventData
    def __init__(self, type: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., data: _Optional[_Union[TestEventData, _Mapping]] = ...) -> None: ...

class TestEventData(_message.Message):
    __slots__ = ("webhook",)
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    webhook: str
    def __init__(self, webhook: _Optional[str] = ...) -> None: ...

class ListWebhooksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWebhooksResponse(_message.Message):
    __slots__ = ("webhooks",)
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    webhooks: _containers.RepeatedCompositeFieldContainer[Webhook]
    def __init__(self, webhooks: _Optional[_Iterable[_Union[Webhook, _Mapping]]] = ...) -> None: ...

class ResumeWebhookRequest(_message.Message):
    __slots__ = ("webhook",)
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    webhook: str
    def __init__(self, webhook: _Optional[str] = ...) -> None: ...

class ResumeWebhookResponse(_message.Message):
    __slots__ = ("webhook", "changed")
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    webhook: Webhook
    changed: bool
    def __init__(self, webhook: _Optional[_Union[Webhook, _Mapping]] = ..., changed: bool = ...) -> None: ...

class TestWebhookRequest(_message.Message):
    __slots__ = ("webhook",)
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    webhook: str
    def __init__(self, webhook: _Optional[str] = ...) -> None: ...

class TestWebhookResponse(_message.Message):
    __slots__ = ("delivery",)
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    delivery: Delivery
    def __init__(self, delivery: _Optional[_Union[Delivery, _Mapping]] = ...) -> None: ...

class ListDeliveriesRequest(_message.Message):
    __slots__ = ("webhook", "state", "page_size", "page_token")
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    webhook: str
    state: DeliveryState
    page_size: int
    page_token: str
    def __init__(self, webhook: _Optional[str] = ..., state: _Optional[_Union[DeliveryState, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeliveriesResponse(_message.Message):
    __slots__ = ("deliveries", "next_page_token")
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    next_page_token: str
    def __init__(self, deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetDeliveryRequest(_message.Message):
    __slots__ = ("delivery",)
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    delivery: str
    def __init__(self, delivery: _Optional[str] = ...) -> None: ...

class GetDeliveryResponse(_message.Message):
    __slots__ = ("delivery", "body")
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    delivery: Delivery
    body: str
    def __init__(self, delivery: _Optional[_Union[Delivery, _Mapping]] = ..., body: _Optional[str] = ...) -> None: ...

class RedeliverRequest(_message.Message):
    __slots__ = ("delivery",)
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    delivery: str
    def __init__(self, delivery: _Optional[str] = ...) -> None: ...

class RedeliverResponse(_message.Message):
    __slots__ = ("delivery", "changed")
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    delivery: Delivery
    changed: bool
    def __init__(self, delivery: _Optional[_Union[Delivery, _Mapping]] = ..., changed: bool = ...) -> None: ...
