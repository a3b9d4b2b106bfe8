"""What a worker makes of what its agent says, without an agent."""

from __future__ import annotations

import queue
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List

import tenure
from tenure.node.v1 import node_service_pb2, session_pb2
from tenure.node.v1 import worker_service_pb2 as wire
from tenure.v1 import job_pb2
from tenure.worker import _fitting, _succeeded


class GoingOn(unittest.TestCase):
    def setUp(self) -> None:
        self.seen: List[Any] = []
        self.worker = tenure.Worker("unused")
        self.worker.job("k")(self.seen.append)

    def hear(self, *messages: wire.WorkMessage) -> None:
        said: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        with ThreadPoolExecutor(1) as threads:
            for message in messages:
                self.worker._hear(message, said, threads)

    def test_inputs_come_before_the_work_and_are_forgotten_with_it(self) -> None:
        bytes_ = session_pb2.ResultBytes
        good = node_service_pb2.InputResult(
            index=0, job_id="a", state=job_pb2.JOB_STATE_SUCCEEDED, result=bytes_(data=b"[1]", content_type="a/b")
        )
        bad = node_service_pb2.InputResult(index=1, job_id="b", state=job_pb2.JOB_STATE_DEAD, error="why")
        gone = node_service_pb2.InputResult(index=2, job_id="c")
        work = wire.Work(token=7, kind="k", input_results=3)
        self.hear(
            wire.WorkMessage(inputs=wire.WorkInputs(token=7, results=[good], state=bytes_(data=b""))),
            wire.WorkMessage(inputs=wire.WorkInputs(token=8, results=[bad])),
            wire.WorkMessage(inputs=wire.WorkInputs(token=7, results=[bad, gone])),
            wire.WorkMessage(stop=wire.StopWork(token=8)),
            wire.WorkMessage(work=work),
        )
        self.assertEqual(self.worker._before, {}, "the work of the other one will not come")
        (job,) = self.seen
        self.assertEqual((job.resumed, job.state, len(job.inputs)), (True, b"", 3))
        first, second, third = job.inputs
        self.assertEqual((first.json(), first.content_type, first.state), ([1], "a/b", tenure.JobState.SUCCEEDED))
        self.assertEqual((second.data, second.error, second.state), (None, "why", tenure.JobState.DEAD))
        with self.assertRaisesRegex(ValueError, "why"):
            second.text()
        self.assertEqual((third.index, third.job_id, third.error), (2, "c", ""))

    def test_what_goes_on_from_nothing_has_no_inputs(self) -> None:
        self.hear(wire.WorkMessage(work=wire.Work(token=1, kind="k")))
        (job,) = self.seen
        self.assertEqual((job.resumed, job.inputs, job.state), (False, (), None))

    def test_an_end_that_the_agent_would_not_take_is_a_failure_for_good(self) -> None:
        self.assertTrue(_fitting(self.leaves(b"x" * 999_900)).HasField("succeeded"))
        for end in (b"x" * 1_000_000, tenure.Detach(["a"], state=b"x" * 1_000_000)):
            said = self.sent(end)
            self.assertEqual((said.token, said.failed.permanent), (1, True))
            self.assertIn("too large", said.failed.error)

    def leaves(self, result: Any) -> wire.WorkEnded:
        return _succeeded(result, tenure.Attempt(wire.Work(token=1, kind="k", socket="/socket")))

    def sent(self, result: Any) -> wire.WorkEnded:
        """What the agent is told of an attempt that returns this."""
        worker = tenure.Worker("unused")
        worker.job("large")(lambda _: result)
        said: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        with ThreadPoolExecutor(1) as threads:
            worker._hear(wire.WorkMessage(work=wire.Work(token=1, kind="large", socket="/socket")), said, threads)
        ended: wire.WorkEnded = said.get(timeout=60).ended
        return ended


if __name__ == "__main__":
    unittest.main()
