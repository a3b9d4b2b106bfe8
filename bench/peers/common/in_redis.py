"""Where jobs say that they ended, if the peer lives in Redis."""

import os
import subprocess
import time

import redis

_connection: redis.Redis | None = None


def connection() -> redis.Redis:
    global _connection
    if _connection is None:
        _connection = redis.Redis(unix_socket_path=os.environ["BENCH_REDIS"])
    return _connection


def end(payload: dict) -> None:
    """Called by a job at its end."""
    here = connection()
    if "name" in payload:
        here.hset("bench:ends", payload["name"], time.monotonic())
    here.incr("bench:ended")


def ended() -> int:
    return int(connection().get("bench:ended") or 0)


def ends() -> dict[str, float]:
    return {name.decode(): float(at) for name, at in connection().hgetall("bench:ends").items()}


def workers(*command: str):
    """Starts workers, and returns what ends them."""
    log = open("workers-log", "ab")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop() -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    return stop
