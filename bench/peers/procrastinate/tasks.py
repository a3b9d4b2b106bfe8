import os

import procrastinate

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["BENCH_POSTGRES"], min_size=1, max_size=16)
)


@app.task(name="bench", queue="bench")
async def bench(payload: dict) -> None:
    pass
