"""Work that is done once for a key, against a server that answers by script."""

from __future__ import annotations

import asyncio
import hashlib
import unittest
from typing import Any, Iterator

import grpc

import tenure
import tenure.aio
from fake import No, refuse_with, serving, stored
from tenure import _once
from tenure.v1 import job_pb2
from tenure.v1 import job_service_pb2 as wire

QUICK = tenure.RetryPolicy(give_up_after=5.0, first_backoff=0.01, max_backoff=0.05)
RESULT = job_pb2.Result(data=b"done", content_type="text/plain", token=7, partial=True)
AWAY = No(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
TOO_LARGE = No(grpc.StatusCode.FAILED_PRECONDITION, "RESULT_TOO_LARGE")


def kept(labels: Any, deduplicated: bool, state: int = job_pb2.JOB_STATE_QUEUED) -> Any:
    """An answer to Enqueue: a job with these labels, or those of the request."""

    def answer(request: wire.EnqueueRequest) -> wire.EnqueueResponse:
        job = stored(state, 1)
        job.labels.update(request.job.labels if labels is None else labels)
        return wire.EnqueueResponse(job=job, deduplicated=deduplicated)

    return answer


def ended(state: Any, **fields: Any) -> Any:
    return lambda _: wire.WaitJobResponse(job=stored(state, 2, **fields), done=True)


SUCCEEDED = ended(job_pb2.JOB_STATE_SUCCEEDED)


def head(data: bytes, size: int) -> wire.ReadResultResponse:
    sha256 = hashlib.sha256(data).digest()
    told = job_pb2.ResultHead(job_id="j", size=size, sha256=sha256, content_type="text/plain", token=7, partial=True)
    return wire.ReadResultResponse(head=told)


def read(data: bytes, breaks: bool = False) -> Any:
    """An answer to ReadResult; one that breaks does so after its first piece."""

    def answer(_: Any) -> Iterator[wire.ReadResultResponse]:
        yield head(data, len(data))
        for at in range(0, len(data), 256 * 1024):
            yield wire.ReadResultResponse(data=data[at : at + 256 * 1024])
            if breaks:
                raise AWAY

    return answer


ANSWER = read(b"done")


class Asking(unittest.TestCase):
    def test_the_first_and_every_other_caller_gets_the_answer(self) -> None:
        for deduplicated in (False, True):
            steps = {"Enqueue": [kept(None, deduplicated)], "WaitJob": [SUCCEEDED], "ReadResult": [ANSWER]}
            with serving(**steps) as (fake, at), tenure.Client(at, retry=QUICK) as client:
                once = client.once("charge", "order:1", {"amount": 5}, labels={"team": "shop"})
            self.assertEqual((once.text(), once.content_type, once.replayed), ("done", "text/plain", deduplicated))
            self.assertTrue(once.partial)
            sent = fake.calls("Enqueue")[0].job
            self.assertEqual((sent.kind, sent.dedupe_key, sent.labels["team"]), ("charge", "order:1", "shop"))
            self.assertEqual(sent.labels["once"], "b56ecf0fe7a0b323f5bdf0772e2fe9d8")

    def test_another_payload_under_the_key_is_a_conflict_and_waits_for_nothing(self) -> None:
        for labels in ({"once": "0" * 32}, {}):
            with serving(Enqueue=[kept(labels, True)], WaitJob=[SUCCEEDED]) as (fake, at):
                with tenure.Client(at, retry=QUICK) as client, self.assertRaises(tenure.OnceConflict) as raised:
                    client.once("charge", "order:1", {"amount": 6})
            self.assertEqual((raised.exception.key, raised.exception.job_id), ("order:1", "j"))
            self.assertEqual(fake.calls("WaitJob"), [])

    def test_a_bad_end_is_told_with_its_reason(self) -> None:
        dead = ended(job_pb2.JOB_STATE_DEAD, reason="no funds")
        with serving(Enqueue=[kept(None, True)], WaitJob=[dead]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.OnceFailed) as raised:
                client.once("charge", "order:1")
        self.assertEqual((raised.exception.job.state, raised.exception.job.reason), (tenure.JobState.DEAD, "no funds"))

    def test_nothing_is_an_answer_and_a_forgotten_one_is_none(self) -> None:
        def asked(*no: No, state: int = job_pb2.JOB_STATE_QUEUED) -> tenure.Once:
            steps = {"Enqueue": [kept(None, True, state)], "WaitJob": [SUCCEEDED], "ReadResult": [refuse_with(*no)]}
            with serving(**steps) as (_, at), tenure.Client(at, retry=QUICK) as client:
                return client.once("charge", "order:1")

        self.assertEqual(asked(No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND")).data, b"")
        with self.assertRaises(tenure.OnceForgotten):
            asked(No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND", expired="true"))
        succeeded = job_pb2.JOB_STATE_SUCCEEDED
        with self.assertRaises(tenure.OnceForgotten):  # Nobody noted that there was none.
            asked(No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND"), state=succeeded)
        nothing = No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND", left_nothing="true")
        self.assertEqual(asked(nothing, state=succeeded).data, b"")
        gone = refuse_with(No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND"))
        own = kept(None, False, job_pb2.JOB_STATE_SUCCEEDED)  # Its first try was answered late.
        with serving(Enqueue=[own], WaitJob=[SUCCEEDED], ReadResult=[gone]) as (_, at):
            with tenure.Client(at, retry=QUICK) as client:
                self.assertEqual(client.once("charge", "order:1").data, b"")
        with self.assertRaises(tenure.JobNotFound):
            asked(No(grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND"))

    def test_a_key_of_another_producer_is_told_apart_and_an_own_label_is_refused(self) -> None:
        def others(request: wire.EnqueueRequest) -> wire.EnqueueResponse:
            return wire.EnqueueResponse(job=job_pb2.Job(id="j"), deduplicated=True)

        with serving(Enqueue=[others]) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.OnceNotYours):
                client.once("charge", "order:1")
            with self.assertRaises(ValueError):
                client.once("charge", "order:1", labels={"once": "mine"})
        self.assertEqual(len(fake.calls("Enqueue")), 1)

    def ask_both(self, **steps: Any) -> "Iterator[Any]":
        """What both clients get, each of a server of its own."""

        async def ask(at: str) -> tenure.Once:
            async with tenure.aio.Client(at, retry=QUICK) as client:
                return await client.once("charge", "order:1", b"5")

        def plain(at: str) -> tenure.Once:
            with tenure.Client(at, retry=QUICK) as client:
                return client.once("charge", "order:1", b"5")

        for call in (plain, lambda at: asyncio.run(ask(at))):
            copies = {name: list(answers) for name, answers in steps.items()}
            with serving(Enqueue=[kept(None, False)], WaitJob=[SUCCEEDED], **copies) as (_, at):
                try:
                    yield call(at)
                except tenure.TenureError as error:
                    yield error

    def test_an_answer_of_any_size_comes_whole_over_a_connection_that_breaks(self) -> None:
        data = bytes(range(251)) * 2_400
        steps = [read(data, breaks=True), refuse_with(AWAY), read(data)]
        for once in self.ask_both(ReadResult=steps, GetResult=[refuse_with(TOO_LARGE)]):
            self.assertIsInstance(once, tenure.Once)
            self.assertTrue(once.data == data and once.partial, len(once.data))

    def test_what_breaks_each_time_or_does_not_fit_is_told(self) -> None:
        for error in self.ask_both(ReadResult=[read(b"done", breaks=True)]):
            self.assertIsInstance(error, tenure.Refusal)
        size = _once.MOST_BYTES + 1
        for error in self.ask_both(ReadResult=[lambda _: iter([head(b"", size)])]):
            self.assertIsInstance(error, tenure.OnceTooLarge)
            self.assertEqual((error.job.id, error.size), ("j", size))

    def test_an_older_server_is_asked_as_before(self) -> None:
        unknown = refuse_with(No(grpc.StatusCode.UNIMPLEMENTED, ""))
        inline = lambda _: wire.GetResultResponse(result=RESULT)  # noqa: E731 - a step
        for once in self.ask_both(ReadResult=[unknown], GetResult=[inline]):
            self.assertEqual((once.data, once.partial), (b"done", True))
        nothing = refuse_with(No(grpc.StatusCode.NOT_FOUND, "RESULT_NOT_FOUND"))
        for once in self.ask_both(ReadResult=[unknown], GetResult=[nothing]):
            self.assertEqual(once.data, b"")

    def test_asyncio_does_the_same(self) -> None:
        async def ask(at: str) -> tenure.Once:
            async with tenure.aio.Client(at, retry=QUICK) as client:
                return await client.once("charge", "order:1", b"5")

        steps = {"Enqueue": [kept(None, True)], "WaitJob": [SUCCEEDED], "ReadResult": [ANSWER]}
        with serving(**steps) as (_, at):
            once = asyncio.run(ask(at))
        self.assertEqual((once.data, once.replayed), (b"done", True))
        with serving(Enqueue=[kept({}, True)]) as (_, at), self.assertRaises(tenure.OnceConflict):
            asyncio.run(ask(at))

    def test_the_digest_is_of_payload_and_media_type_alone(self) -> None:
        def of(payload: Any, **fields: Any) -> str:
            return _once.digest(tenure.NewJob("charge", payload, **fields))

        self.assertEqual(of({"amount": 5}), "b56ecf0fe7a0b323f5bdf0772e2fe9d8")  # as in Rust
        self.assertEqual(of(b"x"), of(b"x", priority=3, content_type="application/octet-stream"))
        self.assertNotEqual(of(b"x"), of("x"))
        with self.assertRaises(ValueError):
            _once.asking("charge", "", None, {})


if __name__ == "__main__":
    unittest.main()
