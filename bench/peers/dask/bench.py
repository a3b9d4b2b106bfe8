"""Dask has no queue that outlives its processes: nothing is stored, and there is nothing to drain. What compares is how
fast it gets work with a resource to workers and hears of its end."""

import time

from dask.distributed import Client, LocalCluster

import measure


def bench(payload: dict) -> None:
    return None


def main() -> None:
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=4,
        resources={"work": 4},
        host="127.0.0.1",
        dashboard_address=None,
        worker_dashboard_address=None,
    )
    with cluster, Client(cluster) as client:
        measure.peer("Dask 2026.8.0", "2 workers with a resource of 4 each; in memory, nothing is stored")

        def submit(payload: dict):
            return client.submit(bench, payload, pure=False, resources={"work": 1})

        def single() -> None:
            submit({"text": measure.TEXT}).result()

        def many() -> None:
            payloads = [{"text": measure.TEXT}] * 500
            client.gather(client.map(bench, payloads, pure=False, resources={"work": 1}))

        measure.callers(measure.CALLERS, 1, single, jobs=200)
        jobs, _, took = measure.callers(measure.CALLERS, 1, single)
        measure.measured("lifecycle_single", jobs / took)
        jobs, _, took = measure.callers(2, 500, many)
        measure.measured("lifecycle_batch", jobs / took)
        lengths: list[float] = []

        def timed(number: int) -> None:
            began = time.monotonic()
            submit({"text": measure.TEXT}).result()
            lengths.append(time.monotonic() - began)

        measure.timetable(timed, max(20, measure.RATE * measure.SECONDS))
        measure.round_trip(lengths)


if __name__ == "__main__":
    main()
