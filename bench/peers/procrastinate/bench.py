import os
import time

import psycopg

import in_postgres
import measure
import tasks

URL = os.environ["BENCH_POSTGRES"]
app = tasks.app


def enqueue(payload: dict) -> None:
    app.tasks["bench"].defer(payload=payload)


def enqueue_many(payloads: list[dict]) -> None:
    app.tasks["bench"].batch_defer(*({"payload": payload} for payload in payloads))


with app.open():
    app.schema_manager.apply_schema()
    with psycopg.connect(URL, autocommit=True) as own:

        def ended() -> int:
            return own.execute("select count(*) from procrastinate_jobs where status = 'succeeded'").fetchone()[0]

        def ends() -> dict[str, float]:
            # Postgres tells the time of day; the callers read the other clock of the host.
            apart = time.time() - time.monotonic()
            found = own.execute(
                "select args->'payload'->>'name', extract(epoch from at)::float8 from procrastinate_jobs"
                " join procrastinate_events on job_id = procrastinate_jobs.id and type = 'succeeded'"
                " where args->'payload' ? 'name'"
            )
            return {name: at - apart for name, at in found}

        measure.peer(
            "procrastinate 3.10.0",
            "1 asynchronous worker, 50 jobs at once; history kept; an end needs the state doing",
        )
        measure.run(
            enqueue=enqueue,
            enqueue_many=enqueue_many,
            ended=ended,
            ends=ends,
            clear=lambda: own.execute("truncate procrastinate_jobs cascade"),
            start=lambda: in_postgres.worker(),
        )
