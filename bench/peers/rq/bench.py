import os

import rq

import in_redis
import measure
import tasks

URL = "unix://" + os.environ["BENCH_REDIS"]

for name, kind, about in (
    ("RQ 3.0.0, forking", "rq.worker.Worker", "a process forked for each job"),
    ("RQ 3.0.0, simple", "rq.worker.SimpleWorker", "jobs in the worker's own process"),
):
    in_redis.connection().flushdb()
    queue = rq.Queue("bench", connection=in_redis.connection())

    def many(payloads: list[dict]) -> None:
        queue.enqueue_many([rq.Queue.prepare_data(tasks.bench, [payload]) for payload in payloads])

    def start():
        return in_redis.workers(
            "rq", "worker-pool", "bench", "--num-workers", "2", "--url", URL, "--worker-class", kind, "--quiet"
        )

    measure.peer(name, f"2 workers, {about}; Redis that flushes each write")
    measure.run(
        enqueue=lambda payload: queue.enqueue(tasks.bench, payload),
        enqueue_many=many,
        ended=in_redis.ended,
        ends=in_redis.ends,
        clear=lambda: in_redis.connection().flushdb(),
        start=start,
    )
