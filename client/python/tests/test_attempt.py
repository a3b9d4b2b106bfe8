"""What an attempt says at its socket, to an agent that answers by script."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import unittest
from concurrent import futures
from typing import Any, Awaitable, Callable, Dict, List, Tuple

import grpc

import tenure
import tenure.aio
from fake import No, refuse, retry_info
from tenure import _attempt
from tenure.node.v1 import attempt_service_pb2 as words
from tenure.node.v1 import node_service_pb2 as node_wire
from tenure.node.v1 import worker_service_pb2 as wire
from tenure.node.v1.attempt_service_pb2_grpc import AttemptServiceServicer, add_AttemptServiceServicer_to_server
from tenure.v1 import job_pb2, job_service_pb2
from tenure.worker import _end_of, _Registered, _run_async

PARENT = "01900000-0000-7000-8000-000000000001"


class Agent(AttemptServiceServicer):  # type: ignore[misc]
    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.seen: List[Tuple[str, Any]] = []
        self.asked = threading.Event()

    def _answer(self, rpc: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.seen.append((rpc, request))
        self.asked.set()
        answers = self.answers[rpc]
        answer = answers.pop(0) if isinstance(answers, list) and len(answers) > 1 else answers
        answer = answer[0] if isinstance(answer, list) else answer
        if isinstance(answer, No):
            refuse(context, answer)
        return answer(request, context) if callable(answer) else answer

    def ReportProgress(self, request: Any, context: Any) -> Any:
        return self._answer("ReportProgress", request, context)

    def ReportUsage(self, request: Any, context: Any) -> Any:
        return self._answer("ReportUsage", request, context)

    def EnqueueChildren(self, request: Any, context: Any) -> Any:
        return self._answer("EnqueueChildren", request, context)

    def WaitForJobs(self, request: Any, context: Any) -> Any:
        return self._answer("WaitForJobs", request, context)

    def GetChildResults(self, request: Any, context: Any) -> Any:
        return self._answer("GetChildResults", request, context)


def stored(request: words.AttemptServiceEnqueueChildrenRequest, _: Any) -> Any:
    jobs = [job_pb2.Job(id=spec.job_id, kind=spec.kind) for spec in request.jobs]
    answers = [job_service_pb2.EnqueueResponse(job=job, deduplicated=True) for job in jobs]
    items = [job_service_pb2.EnqueueBatchItem(enqueued=answer) for answer in answers]
    return words.AttemptServiceEnqueueChildrenResponse(items=items)


def until_cancelled(_: Any, context: grpc.ServicerContext) -> Any:
    gone = threading.Event()
    context.add_callback(gone.set)
    gone.wait(60)
    return words.WaitForJobsResponse()


class Speaking(unittest.TestCase):
    def setUp(self) -> None:
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        # Longer than a socket's path may be.
        self.directory = os.path.join(home.name, "x" * 120)
        os.mkdir(self.directory)
        self.path = os.path.join(self.directory, "socket")

    def serve(self, **answers: Any) -> Agent:
        agent = Agent(**answers)
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        add_AttemptServiceServicer_to_server(agent, server)
        held = os.open(self.directory, os.O_PATH)
        self.addCleanup(os.close, held)
        server.add_insecure_port(f"unix:/proc/self/fd/{held}/socket")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return agent

    def work(self) -> wire.Work:
        return wire.Work(token=7, job_id=PARENT, kind="k", socket=self.path)

    def plain(self) -> tenure.Attempt:
        attempt = tenure.Attempt(self.work())
        self.addCleanup(attempt._close)
        return attempt

    def run_async(self, function: Callable[[tenure.aio.Attempt], Awaitable[Any]]) -> wire.WorkEnded:
        ends: List[wire.WorkEnded] = []

        async def main() -> None:
            attempt = tenure.aio.Attempt(self.work())
            registered = _Registered(function, (), (ValueError,), True)
            await _run_async(registered, attempt, ends.append)

        asyncio.run(main())
        return ends[0]

    def test_what_the_agent_was_away_for_is_said_again_and_usage_under_one_id(self) -> None:
        away = No(grpc.StatusCode.UNAVAILABLE, "DISK", retry_info(0.01))
        agent = self.serve(ReportUsage=[away, away, words.ReportUsageResponse()], ReportProgress=[away, away, words.ReportProgressResponse()])
        attempt = self.plain()
        attempt.progress(40, "four of ten")
        attempt.use(tokens=5)
        reports = [request.report_id for rpc, request in agent.seen if rpc == "ReportUsage"]
        self.assertEqual((len(reports), len(set(reports))), (3, 1), "it is added once")
        self.assertTrue(reports[0])
        self.assertEqual([rpc for rpc, _ in agent.seen].count("ReportProgress"), 3)
        with self.assertRaises(ValueError):
            attempt.use(tokens=-5)

    def test_children_of_a_step_have_the_ids_of_the_step(self) -> None:
        agent = self.serve(EnqueueChildren=stored)
        jobs = [tenure.NewJob("fetch", b"x" * 250_000) for _ in range(6)]
        first, *_ = self.plain().enqueue_batch(jobs, step="fetch")
        assert isinstance(first, tenure.Enqueued)
        self.assertEqual(first.job.id, "01900000-0000-733b-ba59-210411aa96e3")
        self.assertFalse(first.deduplicated, "it is this call's own")
        sent = [[job.job_id for job in request.jobs] for _, request in agent.seen]
        self.assertEqual([len(batch) for batch in sent], [2, 2, 2])
        self.assertEqual(sum(sent, []), [tenure.child_id(PARENT, "fetch", index) for index in range(6)])

    def test_who_may_not_stay_detaches_with_what_it_waited_for(self) -> None:
        must = words.WaitForJobsResponse(answer=node_wire.WAIT_ANSWER_MUST_DETACH)
        self.serve(WaitForJobs=must)
        registered = _Registered(print, (), (ValueError,), False)
        attempt = self.plain()
        with self.assertRaises(tenure.Detach) as raised:
            attempt.wait(["a", "b"], at_least=1, max_wait=5, state={"step": 2})
        plain = _end_of(raised.exception, registered, attempt)

        async def function(job: tenure.aio.Attempt) -> Any:
            await job.wait(["a", "b"], at_least=1, max_wait=5, state={"step": 2})

        for end in (plain, self.run_async(function)):
            detach = end.detached.detach
            self.assertEqual((detach.job_ids, detach.at_least, detach.max_wait.seconds), (["a", "b"], 1, 5))
            self.assertEqual(end.detached.state.data, b'{"step":2}')
        without = tenure.Attempt(wire.Work(token=7, kind="k"))
        self.assertTrue(_end_of(raised.exception, registered, without).failed.error.startswith("tenure"))

    def test_who_came_back_from_a_wait_has_waited_whatever_ended_it(self) -> None:
        agent = self.serve(WaitForJobs=words.WaitForJobsResponse(answer=node_wire.WAIT_ANSWER_MUST_DETACH))
        told = [node_wire.InputResult(index=at, job_id=job, state=job_pb2.JOB_STATE_RUNNING) for at, job in enumerate("ab")]
        work = wire.Work(token=7, input_results=2, socket=self.path)
        attempt = tenure.Attempt(work, [wire.WorkInputs(results=told)])
        self.addCleanup(attempt._close)
        self.assertEqual(attempt.wait(["a", "b"], max_wait=1), attempt.inputs)
        self.assertEqual(agent.seen, [])
        with self.assertRaises(tenure.Detach):
            attempt.wait(["b", "a"])

    def test_who_came_back_waits_anew_for_what_its_ends_do_not_meet(self) -> None:
        agent = self.serve(WaitForJobs=words.WaitForJobsResponse(answer=node_wire.WAIT_ANSWER_MUST_DETACH))
        states = {"a": job_pb2.JOB_STATE_SUCCEEDED, "b": job_pb2.JOB_STATE_RUNNING}
        told = [node_wire.InputResult(index=at, job_id=job, state=states[job]) for at, job in enumerate("ab")]
        attempt = tenure.Attempt(wire.Work(token=7, input_results=2, socket=self.path), [wire.WorkInputs(results=told)])
        self.addCleanup(attempt._close)
        for _ in range(2):
            self.assertEqual(attempt.wait(["a", "b"], until=tenure.Until.ANY), attempt.inputs)
        with self.assertRaises(tenure.Detach):
            attempt.wait(["a", "b"])
        # A length of a wait ends one, once.
        self.assertEqual(attempt.wait(["a", "b"], max_wait=1), attempt.inputs)
        with self.assertRaises(tenure.Detach):
            attempt.wait(["a", "b"], max_wait=1)
        self.assertEqual(len(agent.seen), 2)

    def test_ends_meet_a_wait_by_its_policy_or_if_none_is_left(self) -> None:
        def met(states: List[tenure.JobState], **how: Any) -> bool:
            ends = [tenure.Input(at, "j", state, None, "", "") for at, state in enumerate(states)]
            return _attempt.meet(ends, tenure.Detach(["j"], **how).terms)

        state = tenure.JobState
        mixed = [state.SUCCEEDED, state.DEAD, state.RUNNING]
        self.assertTrue(met(mixed, until=tenure.Until.ANY) and met(mixed, until=tenure.Until.FIRST_FAILURE))
        self.assertTrue(met(mixed, at_least=1) and met(mixed, at_least=3) and met([]))
        self.assertFalse(met(mixed) or met(mixed, at_least=2) or met([state.WAITING], until=tenure.Until.ANY))
        self.assertTrue(met([state.UNKNOWN], until=tenure.Until.ANY))

    def test_ends_of_children_come_in_pages_and_in_order(self) -> None:
        def page(request: words.AttemptServiceGetChildResultsRequest, _: Any) -> Any:
            at = request.from_index
            result = node_wire.InputResult(index=at, job_id=request.job_ids[at], state=job_pb2.JOB_STATE_SUCCEEDED)
            following = at + 1 if at < 1 else len(request.job_ids) - 1 if at == 1 else 0
            return words.AttemptServiceGetChildResultsResponse(results=[result], next_index=following)

        agent = self.serve(GetChildResults=page)
        ends = self.plain().results([f"job-{number}" for number in range(1_003)])
        self.assertEqual([end.index for end in ends], [0, 1, 999, 1_000, 1_001, 1_002])
        self.assertEqual(ends[-1].job_id, "job-1002")
        self.assertEqual(len(agent.seen), 6)

    def test_a_wait_ends_when_its_attempt_is_to_stop(self) -> None:
        agent = self.serve(WaitForJobs=until_cancelled)
        attempt = self.plain()
        stopping = threading.Thread(target=lambda: agent.asked.wait(60) and attempt._told("drained"))
        stopping.start()
        with self.assertRaises(tenure.Stopped) as raised:
            attempt.wait(["a"])
        stopping.join()
        self.assertEqual(raised.exception.reason, "drained")
        with self.assertRaises(tenure.Stopped):
            attempt.enqueue("k")

    def test_an_attempt_of_an_older_agent_says_what_it_used_at_its_end_and_nothing_else(self) -> None:
        attempt = tenure.Attempt(wire.Work(token=7, kind="k"))
        attempt.use(tokens=5)
        attempt.use(tokens=7)
        self.assertEqual(attempt._usage, {"tokens": 12})
        with self.assertRaises(tenure.NotSupported):
            attempt.progress(1)


class Interrupting(unittest.TestCase):
    def end_of(self, function: Callable[[tenure.aio.Attempt], Awaitable[Any]], *told: str) -> wire.WorkEnded:
        """What becomes of it if it is told this once it waits for ever."""
        ends: List[wire.WorkEnded] = []

        async def main() -> None:
            attempt = tenure.aio.Attempt(wire.Work(token=7, kind="k"))
            registered = _Registered(function, (), (ValueError,), True)
            running = asyncio.ensure_future(_run_async(registered, attempt, ends.append))
            for word in told:
                for _ in range(5):
                    await asyncio.sleep(0)
                if word == "wrap up":
                    attempt._wrap_up()
                else:
                    attempt._told(word)
            await running

        asyncio.run(asyncio.wait_for(main(), 30))
        return ends[0]

    def test_at_the_soft_limit_the_block_ends_and_the_function_goes_on(self) -> None:
        async def function(job: tenure.aio.Attempt) -> Any:
            try:
                async with job.soft_limit():
                    await asyncio.Event().wait()
            except tenure.SoftLimit:
                # It can wait for something again, and is not asked twice.
                await asyncio.sleep(0.001)
                async with job.soft_limit():
                    await asyncio.sleep(0.001)
                return "half"

        self.assertEqual(self.end_of(function, "wrap up").succeeded.data, b"half")

    def test_who_does_not_ask_is_not_interrupted_and_who_comes_late_is_at_once(self) -> None:
        async def function(job: tenure.aio.Attempt) -> Any:
            while not job.wrapping_up:
                await asyncio.sleep(0.001)
            async with job.soft_limit():
                await asyncio.Event().wait()

        self.assertTrue(self.end_of(function, "wrap up").HasField("stopped"), "it caught nothing")

    def test_an_order_to_stop_is_no_soft_limit(self) -> None:
        caught: Dict[str, bool] = {}

        async def function(job: tenure.aio.Attempt) -> Any:
            try:
                async with job.soft_limit():
                    await asyncio.Event().wait()
            except tenure.SoftLimit:
                caught["soft"] = True

        self.assertTrue(self.end_of(function, "cancelled").HasField("stopped"))
        self.assertEqual(caught, {})

    def test_a_block_that_ended_before_is_not_interrupted(self) -> None:
        async def function(job: tenure.aio.Attempt) -> Any:
            async with job.soft_limit():
                await asyncio.sleep(0)
            while not job.wrapping_up:
                await asyncio.sleep(0.001)
            return "whole"

        self.assertEqual(self.end_of(function, "wrap up").succeeded.data, b"whole")


if __name__ == "__main__":
    unittest.main()
