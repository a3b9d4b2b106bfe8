import os

from celery import Celery

import in_redis

app = Celery("bench", broker="redis+socket://" + os.environ["BENCH_REDIS"])
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench")
def bench(payload: dict) -> None:
    in_redis.end(payload)
