"""Lengths and instants, between Python and the wire."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Union

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

#: A length of time: seconds, or a ``timedelta``.
Seconds = Union[int, float, timedelta]


def seconds(length: Seconds) -> float:
    """A length in seconds."""
    return length.total_seconds() if isinstance(length, timedelta) else float(length)


def duration(length: Seconds) -> Duration:
    """A length for the wire. Negative ones go there too: the server refuses them with the field's name."""
    nanos = round(seconds(length) * 1e9)
    whole, rest = divmod(abs(nanos), 1_000_000_000)
    sign = -1 if nanos < 0 else 1
    return Duration(seconds=sign * whole, nanos=sign * rest)


def length(wire: Duration) -> float:
    """A length of the wire in seconds."""
    return wire.seconds + wire.nanos / 1e9


def timestamp(instant: datetime) -> Timestamp:
    """An instant for the wire. One without a zone would mean another time on another host.

    :raises ValueError: if it has no zone.
    """
    if instant.tzinfo is None:
        raise ValueError("this time has no zone: write datetime(..., tzinfo=timezone.utc), or another zone")
    wire = Timestamp()
    wire.FromDatetime(instant.astimezone(timezone.utc))
    return wire


def instant(wire: Timestamp) -> datetime:
    """An instant of the wire, in UTC."""
    return wire.ToDatetime(tzinfo=timezone.utc)
