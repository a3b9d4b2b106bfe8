"""The worker of the scenarios: it does what its payload says, and writes the interval log as the test job does."""

import asyncio
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time

import tenure

directory, node = sys.argv[1], sys.argv[2]
worker = tenure.Worker(concurrency=int(sys.argv[3]))
# The slots that each attempt takes, as `shell@n1=1/4`; and a `tenure` for attempts to call.
needs = [one.partition("=") for one in sys.argv[4].split()] if len(sys.argv) > 4 else []
binary = os.environ.get("TEST_TENURE", "tenure")


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
        self.waiting = False

    def __enter__(self):
        problems = [] if taken(self.lock) else ["overlap"]
        note(self.attempt, "start", self.take(problems))
        return self

    def __exit__(self, *_):
        # Who ends while it waits has written down already that it gave back everything.
        if not self.waiting:
            note(self.attempt, "end", f"exit={self.exit}")
        self.park()
        self.lock.close()

    def take(self, problems):
        """As many units of each slot as it needs; looks several times, for one may become free while it looks at another."""
        self.units = {}
        for slot, _, amount in needs:
            amount, _, capacity = amount.partition("/")
            mine = 0
            for unit in [*range(int(capacity))] * 50:
                name = f"{slot}#{unit}"
                if mine == int(amount):
                    break
                if name not in self.units:
                    file = open(f"{directory}/locks/{name}", "a")
                    if taken(file):
                        self.units[name] = file
                        mine += 1
                    else:
                        file.close()
                        time.sleep(0.0005)
            if mine < int(amount):
                problems.append(f"over:{slot}")
        return f"slots={','.join(self.units) or '-'} problems={','.join(problems) or '-'}"

    def park(self):
        for file in self.units.values():
            file.close()
        self.units = {}

    def waits(self):
        self.park()
        self.waiting = True
        note(self.attempt, "park", "")

    def goes_on(self):
        self.waiting = False
        note(self.attempt, "unpark", self.take([]))


def taken(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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


def say(attempt, step):
    """Says what a step tells; of an async function something to be awaited."""
    if "use" in step:
        return attempt.use(tokens=step["use"])
    if "progress" in step:
        return attempt.progress(step["progress"], step.get("message", ""))
    if "save" in step:
        return attempt.save_checkpoint(step["save"])
    if "lives" in step:
        return attempt.check_lease()


def family(attempt, step):
    """Children of a step; of an async function something to be awaited."""
    kind, count, payload = step["children"]
    return attempt.enqueue_batch([tenure.NewJob(kind, payload) for _ in range(count)], step=step.get("step", "family"))


def ends(inputs):
    assert [end.index for end in inputs] == [*range(len(inputs))], inputs
    return ",".join(end.state.value if end.data is None else end.text() for end in inputs)


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
            say(attempt, step)
            if "park" in step:
                children = family(attempt, step)
                execution.waits()
                try:
                    result = ends(attempt.wait(children, state={"was": "here"}))
                except tenure.Detach:
                    if not step.get("stubborn"):
                        raise
                    while True:
                        attempt.sleep(0.02)
                execution.goes_on()
            if "detach" in step:
                if attempt.resumed:
                    result = f"{attempt.state.decode()} {ends(attempt.inputs)}"
                else:
                    raise tenure.Detach(family(attempt, step), state={"was": "here"})
            if "command" in step:
                # A program that it starts speaks for it.
                environment = {**os.environ, "TENURE_SOCKET": attempt.socket}
                subprocess.run([binary, "attempt", *step["command"].split()], env=environment, check=True)
            if "chatter" in step:
                while not is_open(step["chatter"]):
                    attempt.progress(50)
                    attempt.sleep(0.1)
            if "found" in step:
                result = attempt.checkpoint.decode()
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
        result = {"attempt": attempt.attempt, "key": attempt.idempotency_key}
        for step in json.loads(attempt.payload):
            if "wait" in step:
                while not is_open(step["wait"]):
                    await asyncio.sleep(0.02)
            if "fail" in step:
                fail(step["fail"], attempt, step)
            said = say(attempt, step)
            if said is not None:
                await said
            if "park" in step:
                children = await family(attempt, step)
                execution.waits()
                result = ends(await attempt.wait(children))
                execution.goes_on()
            if "detach" in step:
                if attempt.resumed:
                    result = f"{attempt.state.decode()} {ends(attempt.inputs)}"
                else:
                    return tenure.Detach(await family(attempt, step), state={"was": "here"})
            if "found" in step:
                result = attempt.checkpoint.decode()
            if "read" in step:
                result = []
                try:
                    async with attempt.soft_limit():
                        for source in range(step["read"]):
                            while not is_open(f"source-{source}"):
                                await asyncio.sleep(0.02)
                            result.append(source)
                except tenure.SoftLimit:
                    await attempt.progress(90, "wraps up")
        execution.exit = 0
        return result


logging.basicConfig(level=logging.INFO)
worker.run()
