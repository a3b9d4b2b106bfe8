import in_redis


def bench(payload: dict) -> None:
    in_redis.end(payload)
