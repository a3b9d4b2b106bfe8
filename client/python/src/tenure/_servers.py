"""The servers of one fleet: what an address may be, which is asked, and when a call is tried again.

One is asked for as long as it answers, and the next one when it is UNAVAILABLE or says nothing. Nothing is sent in clear
text to another host, unless the caller said that it may be.
"""

from __future__ import annotations

import ipaddress
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Tuple, Union
from urllib.parse import urlsplit

import grpc

from .errors import EndpointError, Refusal

DEFAULT_ENDPOINT = "http://127.0.0.1:7070"
_MOST_SERVERS = 16
_MAX_MESSAGE = 4 * 1024 * 1024

CHANNEL_OPTIONS: List[Tuple[str, Any]] = [
    # This package tries again by itself, and knows what is safe to try again.
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.primary_user_agent", "tenure-python"),
]


@dataclass(frozen=True)
class Tls:
    """The files of mutual TLS, as ``tenure certs`` makes them."""

    #: The authority's certificate: whom to believe.
    ca: Union[str, Path]
    #: Our certificate.
    cert: Optional[Union[str, Path]] = None
    #: Its key.
    key: Optional[Union[str, Path]] = None

    @classmethod
    def from_environment(cls) -> "Optional[Tls]":
        """The files that ``TENURE_TLS_CA``, ``TENURE_TLS_CERT`` and ``TENURE_TLS_KEY`` name; None without the first."""
        ca = os.environ.get("TENURE_TLS_CA")
        return cls(ca, os.environ.get("TENURE_TLS_CERT"), os.environ.get("TENURE_TLS_KEY")) if ca else None

    def credentials(self) -> grpc.ChannelCredentials:
        """What grpcio makes of the files.

        :raises EndpointError: if one cannot be read.
        """
        try:
            ca = Path(self.ca).read_bytes()
            cert = Path(self.cert).read_bytes() if self.cert else None
            key = Path(self.key).read_bytes() if self.key else None
        except OSError as error:
            raise EndpointError(f"a certificate cannot be used: {error}") from error
        return grpc.ssl_channel_credentials(ca, key, cert)


@dataclass(frozen=True)
class RetryPolicy:
    """How a call is tried again while the servers are UNAVAILABLE; nothing else is tried again."""

    #: Seconds from the first try to giving up. 0: one try, without a deadline of ours.
    give_up_after: float = 10.0
    #: The longest wait after the first try, in seconds; it doubles with each further one.
    first_backoff: float = 0.1
    #: The longest wait between two tries, in seconds.
    max_backoff: float = 2.0


@dataclass(frozen=True)
class Target:
    """One address, looked at."""

    #: ``HOST:PORT``, as grpcio wants it.
    address: str
    secure: bool


def targets(endpoint: Optional[str], tls: Optional[Tls], insecure: bool) -> List[Target]:
    """The addresses of a text: ``http://HOST:PORT`` or ``https://HOST:PORT``, several between commas.

    :raises EndpointError: if one is not an address that may be spoken to.
    """
    text = endpoint or os.environ.get("TENURE_SERVER") or DEFAULT_ENDPOINT
    named = text.split(",")
    if len(named) > _MOST_SERVERS:
        raise EndpointError(f"{len(named)} servers are named; at most {_MOST_SERVERS} are possible")
    return [_target(one.strip(), tls, insecure) for one in named]


def _target(text: str, tls: Optional[Tls], insecure: bool) -> Target:
    def refuse(reason: str) -> EndpointError:
        return EndpointError(f"the address {text!r} cannot be used: {reason}")

    scheme = "https" if tls else "http"
    try:
        parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
        port = parts.port
    except ValueError as error:
        raise refuse("it is not an address; write http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refuse("write http://HOST:PORT or https://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise refuse("there is more than a host and a port; write http://HOST:PORT")
    if port is None:
        raise refuse("the port is missing; write http://HOST:PORT")
    secure = parts.scheme == "https"
    if secure and tls is None:
        raise refuse("TLS needs certificates: name the authority's, one's own and its key")
    if not (secure or insecure or _is_loopback(parts.hostname)):
        raise refuse("without TLS only the loopback interface is spoken to; use https:// and certificates")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Target(f"{host}:{port}", secure)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Tries:
    """The tries of one call, in rounds of one for each server."""

    def __init__(self, policy: RetryPolicy, servers: int, server_time: float) -> None:
        self._policy = policy
        self._servers = servers
        self._server_time = server_time
        self._start = time.monotonic()
        self._asked = 0.0
        #: How often the call was sent.
        self.sent = 0

    @property
    def waited(self) -> float:
        """Seconds since the first try."""
        return time.monotonic() - self._start

    def timeout(self) -> Optional[float]:
        """Sends once more: seconds that the server has for it. Where there is another one, half of it all."""
        self.sent += 1
        policy = self._policy
        if policy.give_up_after <= 0:
            return None
        share = policy.give_up_after / (2 if self._servers > 1 else 1)
        left = policy.give_up_after + self._server_time - self.waited
        return max(min(share + self._server_time, left), 0.001)

    def pause(self, refusal: Refusal) -> Optional[float]:
        """Seconds until the next try after this answer; None: it was the last.

        Not at all within a round, if another server may have a better one. A server that is busy is so for all.
        """
        policy = self._policy
        self._asked = max(self._asked, refusal.retry_after or 0.0)
        elsewhere = refusal.reason in ("", "NOT_LEADER", "STORE_UNAVAILABLE")
        if elsewhere and self.sent % self._servers:
            pause = 0.0
        else:
            rounds = -(-self.sent // self._servers)
            pause = self._asked + backoff(policy, rounds)
            self._asked = 0.0
        over = self.waited + pause >= policy.give_up_after + self._server_time
        return None if over or policy.give_up_after <= 0 else pause


def backoff(policy: RetryPolicy, tries: int) -> float:
    """Seconds, evenly spread from zero to a bound that doubles (full jitter)."""
    bound = min(policy.first_backoff * 2 ** min(max(tries - 1, 0), 20), policy.max_backoff)
    return random.uniform(0.0, bound)
