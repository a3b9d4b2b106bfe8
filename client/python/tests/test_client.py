"""Both clients against a server that answers by script."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import unittest
from typing import Any
from unittest import mock

import grpc

import tenure
import tenure.aio
from fake import Fake, No, enqueued, refuse_with, retry_info, serving, stored
from google.rpc import error_details_pb2
from tenure.v1 import job_pb2
from tenure.v1 import job_service_pb2 as wire

QUICK = tenure.RetryPolicy(give_up_after=5.0, first_backoff=0.01, max_backoff=0.05)
BUSY = No(grpc.StatusCode.UNAVAILABLE, "SERVER_BUSY", retry_info(0.2))
AWAY = No(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", retry_info(0.02))


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Enqueueing(unittest.TestCase):
    def test_a_call_is_sent_again_word_for_word_while_the_server_is_away(self) -> None:
        with serving(Enqueue=[refuse_with(AWAY), refuse_with(AWAY), lambda r: enqueued(r, True)]) as (fake, at):
            with tenure.Client(at, retry=QUICK) as client:
                answer = client.enqueue("k", {"a": 1}, dedupe_key="d")
        sent = fake.calls("Enqueue")
        self.assertEqual(len(sent), 3)
        self.assertEqual(sent[0], sent[2])
        self.assertEqual(answer.job.id, sent[0].job.job_id)
        self.assertFalse(answer.deduplicated, "the echo of an own retry is no duplicate")

    def test_a_duplicate_is_told(self) -> None:
        with serving(Enqueue=[lambda r: enqueued(r, True)]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            self.assertTrue(client.enqueue("k").deduplicated)

    def test_a_server_that_asks_to_be_left_alone_is(self) -> None:
        with serving(Enqueue=[refuse_with(BUSY), enqueued]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            began = time.monotonic()
            client.enqueue("k")
            self.assertGreaterEqual(time.monotonic() - began, 0.2)

    def test_a_refusal_is_typed_and_not_tried_again(self) -> None:
        quota = error_details_pb2.QuotaFailure()
        quota.violations.add(subject="kind:k", description="100 of 100")
        full = No(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_info(600), quota, message="the queue is full")
        with serving(Enqueue=[refuse_with(full)]) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.QueueFull) as raised:
                client.enqueue("k")
        refusal = raised.exception
        self.assertEqual((refusal.reason, refusal.retry_after), ("QUEUE_FULL", 600.0))
        self.assertEqual(refusal.metadata, {"kind": "k"})
        self.assertEqual(refusal.quota_violations[0].description, "100 of 100")
        self.assertEqual(str(refusal), "the queue is full (QUEUE_FULL)")
        self.assertIsInstance(refusal, tenure.ResourceExhausted)
        self.assertEqual(len(fake.calls("Enqueue")), 1)

    def test_every_wrong_field_is_named(self) -> None:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field="job.kind", description="is missing")
        bad.field_violations.add(field="job.priority", description="is 101")
        no = No(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", bad)
        with serving(Enqueue=[refuse_with(no)]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.InvalidField) as raised:
                client.enqueue("k")
        self.assertEqual([it.field for it in raised.exception.field_violations], ["job.kind", "job.priority"])

    def test_a_reason_that_is_not_known_has_the_class_of_its_code(self) -> None:
        no = No(grpc.StatusCode.FAILED_PRECONDITION, "OF_TOMORROW")
        with serving(Enqueue=[refuse_with(no)]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.PreconditionFailed) as raised:
                client.enqueue("k")
        self.assertEqual(raised.exception.reason, "OF_TOMORROW")

    def test_nobody_there_is_unavailable_after_the_deadline(self) -> None:
        at = f"http://127.0.0.1:{unused_port()}"
        policy = tenure.RetryPolicy(give_up_after=0.5, first_backoff=0.02, max_backoff=0.05)
        with tenure.Client(at, retry=policy) as client, self.assertRaises(tenure.Unavailable) as raised:
            client.enqueue("k")
        self.assertGreater(raised.exception.tries, 1)
        self.assertLess(raised.exception.waited, 2.0)

    def test_the_next_server_is_asked_at_once_and_stays_asked(self) -> None:
        away = f"127.0.0.1:{unused_port()}"
        with serving(Enqueue=[enqueued]) as (fake, at):
            with tenure.Client(f"{away},{at}", retry=QUICK) as client:
                client.enqueue("k")
                self.assertEqual(client._current, 1)
                client.enqueue("k")
        self.assertEqual(len(fake.calls("Enqueue")), 2)

    def test_a_batch_has_one_answer_for_each_job(self) -> None:
        def some(request: wire.EnqueueBatchRequest) -> wire.EnqueueBatchResponse:
            answer = wire.EnqueueBatchResponse()
            for job in request.jobs:
                item = answer.items.add()
                if job.kind == "bad":
                    item.refused.CopyFrom(No(grpc.StatusCode.NOT_FOUND, "KIND_NOT_FOUND").status)
                else:
                    item.enqueued.job.CopyFrom(stored(id=job.job_id))
            return answer

        with serving(EnqueueBatch=[refuse_with(AWAY), some]) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            jobs = [tenure.NewJob("k", "x" * 200_000) for _ in range(7)] + [tenure.NewJob("bad")]
            answers = client.enqueue_batch(jobs)
        self.assertEqual([getattr(it, "job", it).id for it in answers[:7]], [job.id for job in jobs[:7]])  # type: ignore[union-attr]
        self.assertIsInstance(answers[7], tenure.KindNotFound)
        sent = fake.calls("EnqueueBatch")[1:]
        self.assertEqual([len(request.jobs) for request in sent], [5, 3])
        self.assertTrue(all(request.ByteSize() <= 1024 * 1024 for request in sent))

    def test_many_small_jobs_are_cut_by_count(self) -> None:
        def all_of(request: wire.EnqueueBatchRequest) -> wire.EnqueueBatchResponse:
            answer = wire.EnqueueBatchResponse()
            for job in request.jobs:
                answer.items.add().enqueued.job.CopyFrom(stored(id=job.job_id))
            return answer

        with serving(EnqueueBatch=[all_of]) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            self.assertEqual(len(client.enqueue_batch(tenure.NewJob("k") for _ in range(2_001))), 2_001)
        self.assertEqual([len(request.jobs) for request in fake.calls("EnqueueBatch")], [1_000, 1_000, 1])


class Following(unittest.TestCase):
    def test_a_wait_goes_on_over_polls_and_ends_with_the_final_state(self) -> None:
        running = lambda r: wire.WaitJobResponse(job=stored(job_pb2.JOB_STATE_RUNNING))  # noqa: E731
        done = lambda r: wire.WaitJobResponse(job=stored(job_pb2.JOB_STATE_DEAD, reason="why"), done=True)  # noqa: E731
        with serving(WaitJob=[running, refuse_with(AWAY), done]) as (fake, at):
            with tenure.Client(at, retry=QUICK) as client:
                job = client.wait("j")
        self.assertEqual((job.state, job.reason), (tenure.JobState.DEAD, "why"))
        self.assertTrue(job.state.is_final)
        self.assertEqual(fake.calls("WaitJob")[0].timeout.seconds, 60)

    def test_a_wait_that_runs_out_is_a_timeout_with_the_job(self) -> None:
        running = lambda r: wire.WaitJobResponse(job=stored(job_pb2.JOB_STATE_RUNNING))  # noqa: E731
        with serving(WaitJob=[running]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(TimeoutError) as raised:
                client.wait("j", timeout=0.05)
        self.assertIsInstance(raised.exception, tenure.NotDone)
        self.assertEqual(raised.exception.job.state, tenure.JobState.RUNNING)  # type: ignore[attr-defined]

    def test_a_watch_tells_each_version_once_over_broken_streams(self) -> None:
        def first(_: Any) -> Any:
            yield wire.WatchJobResponse(job=stored(version=1))
            yield wire.WatchJobResponse(job=stored(job_pb2.JOB_STATE_RUNNING, version=4))
            raise AWAY

        def second(_: Any) -> Any:
            yield wire.WatchJobResponse(job=stored(job_pb2.JOB_STATE_RUNNING, version=4))
            yield wire.WatchJobResponse(job=stored(job_pb2.JOB_STATE_SUCCEEDED, version=6))

        with serving(WatchJob=[first, second]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            told = [(job.version, job.state.value) for job in client.watch("j")]
        self.assertEqual(told, [(1, "queued"), (4, "running"), (6, "succeeded")])

    def test_a_watch_of_no_job_is_a_refusal(self) -> None:
        no = No(grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
        with serving(WatchJob=[refuse_with(no)]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.JobNotFound):
                list(client.watch("j"))

    def test_a_list_goes_over_its_pages(self) -> None:
        pages = [
            lambda r: wire.ListJobsResponse(jobs=[stored(id="b")], next_page_token="more"),
            lambda r: wire.ListJobsResponse(jobs=[stored(id="a")]),
        ]
        with serving(ListJobs=pages) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            listed = client.jobs(states=[tenure.JobState.QUEUED], workflow_id="w")
            self.assertEqual([job.id for job in listed], ["b", "a"])
        asked = fake.calls("ListJobs")[1]
        self.assertEqual((list(asked.states), asked.workflow_id), ([job_pb2.JOB_STATE_QUEUED], "w"))

    def test_a_state_of_tomorrow_is_unknown(self) -> None:
        with serving(GetJob=[lambda r: wire.GetJobResponse(job=stored(99))]) as (_, at):
            with tenure.Client(at, retry=QUICK) as client:
                self.assertEqual(client.get("j").state, tenure.JobState.UNKNOWN)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_the_other_client_does_the_same(self) -> None:
        def watched(_: Any) -> Any:
            yield wire.WatchJobResponse(job=stored(job_pb2.JOB_STATE_SUCCEEDED, version=6))

        done = lambda r: wire.WaitJobResponse(job=stored(job_pb2.JOB_STATE_SUCCEEDED), done=True)  # noqa: E731
        full = refuse_with(No(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_info(3)))
        fake = Fake(
            Enqueue=[refuse_with(AWAY), enqueued, full],
            WaitJob=[done],
            WatchJob=[refuse_with(AWAY), watched],
            ListJobs=[lambda r: wire.ListJobsResponse(jobs=[stored()])],
        )
        with serving(fake) as (_, at):
            async with tenure.aio.Client(at, retry=QUICK) as client:
                self.assertFalse((await client.enqueue("k", b"x")).deduplicated)
                self.assertEqual((await client.wait("j")).state, tenure.JobState.SUCCEEDED)
                self.assertEqual([job.version async for job in client.watch("j")], [6])
                self.assertEqual([job.id async for job in client.jobs()], ["j"])
                with self.assertRaises(tenure.QueueFull) as raised:
                    await client.enqueue("k")
        self.assertEqual(raised.exception.retry_after, 3.0)

    async def test_calls_do_not_hold_up_the_loop(self) -> None:
        def slow(request: Any) -> Any:
            time.sleep(0.3)
            return enqueued(request)

        with serving(Enqueue=[slow]) as (_, at):
            async with tenure.aio.Client(at, retry=QUICK) as client:
                began = time.monotonic()
                await asyncio.gather(*(client.enqueue("k") for _ in range(4)))
        self.assertLess(time.monotonic() - began, 1.0)


class Addresses(unittest.TestCase):
    def test_the_loopback_interface_is_accepted_with_and_without_a_scheme(self) -> None:
        for good in ["http://127.0.0.1:7070", "127.0.0.1:7070", "localhost:1", "http://[::1]:7070/", "127.0.0.1:1,[::1]:2"]:
            tenure.Client(good).close()

    def test_what_cannot_be_used_is_refused_with_a_reason(self) -> None:
        for bad, reason in [
            ("https://127.0.0.1:7070", "TLS"),
            ("http://control.example:7070", "loopback"),
            ("http://10.0.0.5:7070", "loopback"),
            ("http://127.0.0.1", "port"),
            ("http://127.0.0.1:7070/x", "more than"),
            ("ftp://127.0.0.1:7070", "write http"),
            ("127.0.0.1:1,", "write http"),
            ("http://127.0.0.1:port", "no"),
        ]:
            with self.assertRaisesRegex(tenure.EndpointError, reason, msg=bad):
                tenure.Client(bad)

    def test_certificates_that_are_not_there_are_named(self) -> None:
        tls = tenure.Tls("/nonexistent/ca.pem")
        with self.assertRaisesRegex(tenure.EndpointError, "/nonexistent/ca.pem"):
            tenure.Client("https://127.0.0.1:7070", tls=tls)

    def test_the_environment_names_the_server(self) -> None:
        with mock.patch.dict(os.environ, {"TENURE_SERVER": "http://127.0.0.1:4"}):
            self.assertEqual(tenure.Client().endpoint, "127.0.0.1:4")


if __name__ == "__main__":
    unittest.main()
