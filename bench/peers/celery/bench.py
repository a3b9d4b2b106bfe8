import in_redis
import measure
import tasks


def start():
    return in_redis.workers(
        "celery", "-A", "tasks", "worker", "--concurrency", "2", "--pool", "prefork", "--loglevel", "WARNING",
        "--without-gossip", "--without-mingle",
    )


measure.peer("Celery 5.7.0", "2 processes, acks late, prefetch 1, no results; Redis that flushes each write")
measure.run(
    enqueue=lambda payload: tasks.bench.delay(payload),
    ended=in_redis.ended,
    ends=in_redis.ends,
    clear=lambda: in_redis.connection().flushdb(),
    start=start,
)
