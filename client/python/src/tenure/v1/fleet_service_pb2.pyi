import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tenure.v1 import cron_service_pb2 as _cron_service_pb2
from tenure.v1 import job_pb2 as _job_pb2
from tenure.v1 import job_service_pb2 as _job_service_pb2
from tenure.v1 import webhook_service_pb2 as _webhook_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PausePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAUSE_POLICY_UNSPECIFIED: _ClassVar[PausePolicy]
    PAUSE_POLICY_HOLD: _ClassVar[PausePolicy]
    PAUSE_POLICY_REJECT: _ClassVar[PausePolicy]

class DedupePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEDUPE_POLICY_UNSPECIFIED: _ClassVar[DedupePolicy]
    DEDUPE_POLICY_RETAINED: _ClassVar[DedupePolicy]
    DEDUPE_POLICY_LIVE: _ClassVar[DedupePolicy]

class Placement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACEMENT_UNSPECIFIED: _ClassVar[Placement]
    PLACEMENT_PACK: _ClassVar[Placement]
    PLACEMENT_SPREAD: _ClassVar[Placement]

class OnExhausted(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_EXHAUSTED_UNSPECIFIED: _ClassVar[OnExhausted]
    ON_EXHAUSTED_DEFER: _ClassVar[OnExhausted]
    ON_EXHAUSTED_REFUSE: _ClassVar[OnExhausted]

class BudgetWindow(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BUDGET_WINDOW_UNSPECIFIED: _ClassVar[BudgetWindow]
    BUDGET_WINDOW_HOUR: _ClassVar[BudgetWindow]
    BUDGET_WINDOW_DAY: _ClassVar[BudgetWindow]
    BUDGET_WINDOW_WEEK: _ClassVar[BudgetWindow]
    BUDGET_WINDOW_MONTH: _ClassVar[BudgetWindow]

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_LIVE: _ClassVar[NodeState]
    NODE_STATE_SUSPECT: _ClassVar[NodeState]
    NODE_STATE_AWAY: _ClassVar[NodeState]
PAUSE_POLICY_UNSPECIFIED: PausePolicy
PAUSE_POLICY_HOLD: PausePolicy
PAUSE_POLICY_REJECT: PausePolicy
DEDUPE_POLICY_UNSPECIFIED: DedupePolicy
DEDUPE_POLICY_RETAINED: DedupePolicy
DEDUPE_POLICY_LIVE: DedupePolicy
PLACEMENT_UNSPECIFIED: Placement
PLACEMENT_PACK: Placement
PLACEMENT_SPREAD: Placement
ON_EXHAUSTED_UNSPECIFIED: OnExhausted
ON_EXHAUSTED_DEFER: OnExhausted
ON_EXHAUSTED_REFUSE: OnExhausted
BUDGET_WINDOW_UNSPECIFIED: BudgetWindow
BUDGET_WINDOW_HOUR: BudgetWindow
BUDGET_WINDOW_DAY: BudgetWindow
BUDGET_WINDOW_WEEK: BudgetWindow
BUDGET_WINDOW_MONTH: BudgetWindow
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_LIVE: NodeState
NODE_STATE_SUSPECT: NodeState
NODE_STATE_AWAY: NodeState

class RetryPolicy(_message.Message):
    __slots__ = ("intervals", "initial", "factor_permille", "max", "jitter_permille")
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    FACTOR_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    JITTER_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    intervals: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    initial: _duration_pb2.Duration
    factor_permille: int
    max: _duration_pb2.Duration
    jitter_permille: int
    def __init__(self, intervals: _Optional[_Iterable[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]]] = ..., initial: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., factor_permille: _Optional[int] = ..., max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., jitter_permille: _Optional[int] = ...) -> None: ...

class Concurrency(_message.Message):
    __slots__ = ("key", "limit")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    key: str
    limit: int
    def __init__(self, key: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Kind(_message.Message):
    __slots__ = ("name", "needs", "selector", "lease", "max_failures", "max_losses", "retry", "permanent_exit_codes", "hard_time_limit", "queue_cap", "stale_after", "dedupe", "priority", "result_ttl", "retention", "paused", "pause_policy", "max_running", "concurrency", "fifo", "placement", "reserve_after", "requirements", "budget", "prefer", "node_backoff", "keep_on_wait", "reacquire_timeout", "soft_time_limit", "progress_timeout")
    class SelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSSES_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_EXIT_CODES_FIELD_NUMBER: _ClassVar[int]
    HARD_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_CAP_FIELD_NUMBER: _ClassVar[int]
    STALE_AFTER_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RESULT_TTL_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    FIFO_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    RESERVE_AFTER_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    PREFER_FIELD_NUMBER: _ClassVar[int]
    NODE_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_WAIT_FIELD_NUMBER: _ClassVar[int]
    REACQUIRE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SOFT_TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    needs: _job_pb2.Needs
    selector: _containers.ScalarMap[str, str]
    lease: _duration_pb2.Duration
    max_failures: int
    max_losses: int
    retry: RetryPolicy
    permanent_exit_codes: _containers.RepeatedScalarFieldContainer[int]
    hard_time_limit: _duration_pb2.Duration
    queue_cap: int
    stale_after: _duration_pb2.Duration
    dedupe: DedupePolicy
    priority: int
    result_ttl: _duration_pb2.Duration
    retention: _duration_pb2.Duration
    paused: bool
    pause_policy: PausePolicy
    max_running: int
    concurrency: Concurrency
    fifo: bool
    placement: Placement
    reserve_after: _duration_pb2.Duration
    requirements: _containers.RepeatedCompositeFieldContainer[_job_pb2.Requirement]
    budget: Budget
    prefer: _containers.RepeatedCompositeFieldContainer[_job_pb2.Requirement]
    node_backoff: bool
    keep_on_wait: _containers.RepeatedScalarFieldContainer[str]
    reacquire_timeout: _duration_pb2.Duration
    soft_time_limit: _duration_pb2.Duration
    progress_timeout: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., needs: _Optional[_Union[_job_pb2.Needs, _Mapping]] = ..., selector: _Optional[_Mapping[str, str]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_failures: _Optional[int] = ..., max_losses: _Optional[int] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., permanent_exit_codes: _Optional[_Iterable[int]] = ..., hard_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queue_cap: _Optional[int] = ..., stale_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dedupe: _Optional[_Union[DedupePolicy, str]] = ..., priority: _Optional[int] = ..., result_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retention: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., paused: bool = ..., pause_policy: _Optional[_Union[PausePolicy, str]] = ..., max_running: _Optional[int] = ..., concurrency: _Optional[_Union[Concurrency, _Mapping]] = ..., fifo: bool = ..., placement: _Optional[_Union[Placement, str]] = ..., reserve_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., requirements: _Optional[_Iterable[_Union[_job_pb2.Requirement, _Mapping]]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., prefer: _Optional[_Iterable[_Union[_job_pb2.Requirement, _Mapping]]] = ..., node_backoff: bool = ..., keep_on_wait: _Optional[_Iterable[str]] = ..., reacquire_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., soft_time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., progress_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Tenant(_message.Message):
    __slots__ = ("name", "weight", "declared", "share_permille", "dominant_slot", "used", "queued", "leases")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    SHARE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
    DOMINANT_SLOT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: int
    declared: bool
    share_permille: int
    dominant_slot: str
    used: _containers.RepeatedCompositeFieldContainer[TenantSlot]
    queued: int
    leases: int
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[int] = ..., declared: bool = ..., share_permille: _Optional[int] = ..., dominant_slot: _Optional[str] = ..., used: _Optional[_Iterable[_Union[TenantSlot, _Mapping]]] = ..., queued: _Optional[int] = ..., leases: _Optional[int] = ...) -> None: ...

class TenantSlot(_message.Message):
    __slots__ = ("slot", "used", "capacity")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    slot: str
    used: int
    capacity: int
    def __init__(self, slot: _Optional[str] = ..., used: _Optional[int] = ..., capacity: _Optional[int] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("counters", "on_exhausted")
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    ON_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    counters: _containers.RepeatedCompositeFieldContainer[BudgetCounter]
    on_exhausted: OnExhausted
    def __init__(self, counters: _Optional[_Iterable[_Union[BudgetCounter, _Mapping]]] = ..., on_exhausted: _Optional[_Union[OnExhausted, str]] = ...) -> None: ...

class BudgetCounter(_message.Message):
    __slots__ = ("name", "limit", "window", "spent", "until")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    window: BudgetWindow
    spent: int
    until: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., window: _Optional[_Union[BudgetWindow, str]] = ..., spent: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Slot(_message.Message):
    __slots__ = ("name", "per_node", "capacity", "used", "paused", "paused_until", "waiting", "rate", "throttled_until")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    per_node: bool
    capacity: int
    used: int
    paused: bool
    paused_until: _timestamp_pb2.Timestamp
    waiting: int
    rate: Rate
    throttled_until: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., per_node: bool = ..., capacity: _Optional[int] = ..., used: _Optional[int] = ..., paused: bool = ..., paused_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., waiting: _Optional[int] = ..., rate: _Optional[_Union[Rate, _Mapping]] = ..., throttled_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Rate(_message.Message):
    __slots__ = ("amount", "per", "burst")
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    PER_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    amount: int
    per: _duration_pb2.Duration
    burst: int
    def __init__(self, amount: _Optional[int] = ..., per: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., burst: _Optional[int] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "state", "cordoned", "draining", "labels", "kinds", "slots", "running", "unreaped", "host", "agent_version", "incarnation", "silent_for", "closed_groups", "warnings", "backoffs", "earmarks")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    UNREAPED_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SILENT_FOR_FIELD_NUMBER: _ClassVar[int]
    CLOSED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    BACKOFFS_FIELD_NUMBER: _ClassVar[int]
    EARMARKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: NodeState
    cordoned: bool
    draining: bool
    labels: _containers.ScalarMap[str, str]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    slots: _containers.RepeatedCompositeFieldContainer[NodeSlot]
    running: int
    unreaped: int
    host: Host
    agent_version: str
    incarnation: int
    silent_for: _duration_pb2.Duration
    closed_groups: _containers.RepeatedCompositeFieldContainer[ClosedGroup]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    backoffs: _containers.RepeatedCompositeFieldContainer[NodeBackoff]
    earmarks: _containers.RepeatedCompositeFieldContainer[_job_service_pb2.Earmark]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[NodeState, str]] = ..., cordoned: bool = ..., draining: bool = ..., labels: _Optional[_Mapping[str, str]] = ..., kinds: _Optional[_Iterable[str]] = ..., slots: _Optional[_Iterable[_Union[NodeSlot, _Mapping]]] = ..., running: _Optional[int] = ..., unreaped: _Optional[int] = ..., host: _Optional[_Union[Host, _Mapping]] = ..., agent_version: _Optional[str] = ..., incarnation: _Optional[int] = ..., silent_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., closed_groups: _Optional[_Iterable[_Union[ClosedGroup, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., backoffs: _Optional[_Iterable[_Union[NodeBackoff, _Mapping]]] = ..., earmarks: _Optional[_Iterable[_Union[_job_service_pb2.Earmark, _Mapping]]] = ...) -> None: ...

class NodeBackoff(_message.Message):
    __slots__ = ("kind", "failed", "until")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    kind: str
    failed: int
    until: _timestamp_pb2.Timestamp
    def __init__(self, kind: _Optional[str] = ..., failed: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class NodeSlot(_message.Message):
    __slots__ = ("slot", "capacity", "used")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    slot: str
    capacity: int
    used: int
    def __init__(self, slot: _Optional[str] = ..., capacity: _Optional[int] = ..., used: _Optional[int] = ...) -> None: ...

class Host(_message.Message):
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

class ApplyRequest(_message.Message):
    __slots__ = ("fleet", "validate_only")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    validate_only: bool
    def __init__(self, fleet: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class ApplyResponse(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes: _Optional[_Iterable[str]] = ...) -> None: ...

class GetFleetRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFleetResponse(_message.Message):
    __slots__ = ("kinds", "slots", "tenants", "cron_entries", "webhooks")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    CRON_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[Kind]
    slots: _containers.RepeatedCompositeFieldContainer[Slot]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    cron_entries: _containers.RepeatedCompositeFieldContainer[_cron_service_pb2.CronEntry]
    webhooks: _containers.RepeatedCompositeFieldContainer[_webhook_service_pb2.Webhook]
    def __init__(self, kinds: _Optional[_Iterable[_Union[Kind, _Mapping]]] = ..., slots: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ..., cron_entries: _Optional[_Iterable[_Union[_cron_service_pb2.CronEntry, _Mapping]]] = ..., webhooks: _Optional[_Iterable[_Union[_webhook_service_pb2.Webhook, _Mapping]]] = ...) -> None: ...

class ListKindsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKindsResponse(_message.Message):
    __slots__ = ("kinds",)
    KINDS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[Kind]
    def __init__(self, kinds: _Optional[_Iterable[_Union[Kind, _Mapping]]] = ...) -> None: ...

class PauseKindRequest(_message.Message):
    __slots__ = ("kind", "policy")
    KIND_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    policy: PausePolicy
    def __init__(self, kind: _Optional[str] = ..., policy: _Optional[_Union[PausePolicy, str]] = ...) -> None: ...

class PauseKindResponse(_message.Message):
    __slots__ = ("kind", "changed")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    changed: bool
    def __init__(self, kind: _Optional[_Union[Kind, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ResumeKindRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: str
    def __init__(self, kind: _Optional[str] = ...) -> None: ...

class ResumeKindResponse(_message.Message):
    __slots__ = ("kind", "changed")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    changed: bool
    def __init__(self, kind: _Optional[_Union[Kind, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ListSlotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSlotsResponse(_message.Message):
    __slots__ = ("slots",)
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[Slot]
    def __init__(self, slots: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ...) -> None: ...

class SetCapacityRequest(_message.Message):
    __slots__ = ("slot", "capacity")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    slot: str
    capacity: int
    def __init__(self, slot: _Optional[str] = ..., capacity: _Optional[int] = ...) -> None: ...

class SetCapacityResponse(_message.Message):
    __slots__ = ("slot", "changed")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    slot: Slot
    changed: bool
    def __init__(self, slot: _Optional[_Union[Slot, _Mapping]] = ..., changed: bool = ...) -> None: ...

class PauseSlotRequest(_message.Message):
    __slots__ = ("slot", "duration")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    slot: str
    duration: _duration_pb2.Duration
    def __init__(self, slot: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PauseSlotResponse(_message.Message):
    __slots__ = ("slot", "changed")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    slot: Slot
    changed: bool
    def __init__(self, slot: _Optional[_Union[Slot, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ResumeSlotRequest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class ResumeSlotResponse(_message.Message):
    __slots__ = ("slot", "changed")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    slot: Slot
    changed: bool
    def __init__(self, slot: _Optional[_Union[Slot, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: Node
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ...) -> None: ...

class CordonNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class CordonNodeResponse(_message.Message):
    __slots__ = ("node", "changed")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    node: Node
    changed: bool
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., changed: bool = ...) -> None: ...

class UncordonNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UncordonNodeResponse(_message.Message):
    __slots__ = ("node", "changed")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    node: Node
    changed: bool
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., changed: bool = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node", "deadline")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    node: str
    deadline: _duration_pb2.Duration
    def __init__(self, node: _Optional[str] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("node", "changed")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    node: Node
    changed: bool
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., changed: bool = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("node", "lost", "validate_only")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    node: str
    lost: bool
    validate_only: bool
    def __init__(self, node: _Optional[str] = ..., lost: bool = ..., validate_only: bool = ...) -> None: ...

class ForgetNodeResponse(_message.Message):
    __slots__ = ("node", "ended_leases")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ENDED_LEASES_FIELD_NUMBER: _ClassVar[int]
    node: Node
    ended_leases: int
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., ended_leases: _Optional[int] = ...) -> None: ...
