"""The worker of the scenarios: it does what its payload says, and writes the interval log as the test job does."""

import asyncio
import fcntl
import json
import logging
import os
import signal
import sys
import time

import tenure

directory, node = sys.argv[1], sys.argv[2]
worker = tenure.Worker(concurrency=int(sys.argv[3]))


def note(attempt, what, more):
    at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    line = (
        f"{what} job={attempt.job_id} token={attempt.token} attempt={attempt.attempt} pid={os.getpid()} at={at} "
        f"kind={attempt.kind} node={node} {more}\n"
    )
    with open(f"{directory}/intervals.log", "a") as log:
        log.write(line)


class Execution:
    """Written down at its start and its end, with a lock that shows whether another one of the job runs."""

    def __init__(self, attempt):
        self.attempt = attempt
        self.lock = open(f"{directory}/locks/job-{attempt.job_id}", "a")
        self.exit = 1

    def __enter__(self):
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            problems = "-"
        except OSError:
            problems = "overlap"
        note(self.attempt, "start", f"slots=- problems={problems}")
        return self

    def __exit__(self, *_):
        note(self.attempt, "end", f"exit={self.exit}")
        self.lock.close()


def is_open(gate):
    return os.path.exists(f"{directory}/gates/{gate}")


def fail(name, attempt, step):
    if attempt.attempt > step.get("times", 1_000):
        return
    if name == "retry":
        raise tenure.Retry("later", retry_after=step["after"], throttled=step.get("slot", ""))
    if name == "permanent":
        raise tenure.Permanent("never")
    raise {"ValueError": ValueError, "OSError": OSError, "LookupError": LookupError}[name]("as told")


@worker.job("py.task")
def task(attempt):
    with Execution(attempt) as execution:
        result = None
        for step in attempt.json():
            if "wait" in step:
                while not is_open(step["wait"]):
                    attempt.sleep(0.02)
            if "fail" in step:
                fail(step["fail"], attempt, step)
            if "deaf" in step:
                while not is_open(step["deaf"]):
                    time.sleep(0.02)
            if "use" in step:
                attempt.use(tokens=step["use"])
            if "kill" in step:
                if attempt.attempt <= step["kill"]:
                    os.kill(os.getpid(), signal.SIGKILL)
            if "read" in step:
                # Sources one after the other; what was read by the soft limit is better than nothing.
                result = []
                try:
                    for source in range(step["read"]):
                        while not is_open(f"source-{source}"):
                            attempt.sleep(0.02)
                        result.append(source)
                except tenure.SoftLimit:
                    pass
            if "soft" in step:
                while True:
                    attempt.sleep(0.02)
            if "fill" in step:
                result = "x" * step["fill"]
            if "gather" in step:
                # What came before it, in order: what each said, or else how it ended; of long ones only the length.
                said = [
                    one.state.value if one.data is None else len(one.data) if len(one.data) > 100 else one.text()
                    for one in attempt.inputs
                ]
                result = {"resumed": attempt.resumed, "said": said}
            if "result" in step:
                result = step["result"]
        execution.exit = 0
        return result


@worker.job("py.async", retry_on=LookupError)
async def gentle(attempt):
    with Execution(attempt) as execution:
        for step in json.loads(attempt.payload):
            if "wait" in step:
                while not is_open(step["wait"]):
                    await asyncio.sleep(0.02)
            if "fail" in step:
                fail(step["fail"], attempt, step)
        execution.exit = 0
        return {"attempt": attempt.attempt, "key": attempt.idempotency_key}


logging.basicConfig(level=logging.INFO)
worker.run()
