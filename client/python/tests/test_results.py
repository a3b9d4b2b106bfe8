"""Reading results of any size."""

from __future__ import annotations

import asyncio
import hashlib
import unittest
from typing import Any, Iterator

import grpc

import tenure
import tenure.aio
from fake import No, refuse_with, retry_info, serving
from tenure.v1 import job_pb2
from tenure.v1 import job_service_pb2 as wire

QUICK = tenure.RetryPolicy(give_up_after=5.0, first_backoff=0.01, max_backoff=0.05)
AWAY = No(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", retry_info(0.02))
PIECES = [b"a" * 1000, b"b", b"c" * 7]


def head(size: int) -> wire.ReadResultResponse:
    sha256 = hashlib.sha256(b"".join(PIECES)).digest()
    return wire.ReadResultResponse(head=job_pb2.ResultHead(job_id="j", size=size, sha256=sha256))


def whole(_: Any) -> Iterator[wire.ReadResultResponse]:
    yield head(1008)
    for piece in PIECES:
        yield wire.ReadResultResponse(data=piece)


def cut(_: Any) -> Iterator[wire.ReadResultResponse]:
    yield head(1008)
    yield wire.ReadResultResponse(data=PIECES[0])


def other(_: Any) -> Iterator[wire.ReadResultResponse]:
    yield head(3)
    yield wire.ReadResultResponse(data=b"xyz")


def breaks(_: Any) -> Iterator[wire.ReadResultResponse]:
    yield head(1008)
    raise AWAY


async def all_of(at: str) -> bytes:
    async with tenure.aio.Client(at, retry=QUICK) as client:
        return b"".join([piece async for piece in client.read_result("j")])


class Reading(unittest.TestCase):
    def test_the_pieces_come_in_order_after_a_server_that_was_away(self) -> None:
        with serving(ReadResult=[refuse_with(AWAY), whole]) as (_, at), tenure.Client(at, retry=QUICK) as client:
            self.assertEqual(list(client.read_result("j")), PIECES)
        with serving(ReadResult=[refuse_with(AWAY), whole]) as (_, at):
            self.assertEqual(asyncio.run(all_of(at)), b"".join(PIECES))

    def test_what_is_not_whole_or_has_other_bytes_is_an_error(self) -> None:
        for answer in (cut, other, lambda _: iter([wire.ReadResultResponse(data=b"x")])):
            with serving(ReadResult=[answer]) as (_, at), tenure.Client(at, retry=QUICK) as client:
                with self.assertRaises(tenure.UnexpectedAnswer):
                    list(client.read_result("j"))

    def test_a_read_that_breaks_is_not_begun_anew(self) -> None:
        with serving(ReadResult=[breaks, whole]) as (fake, at), tenure.Client(at, retry=QUICK) as client:
            with self.assertRaises(tenure.Refusal):
                list(client.read_result("j"))
            self.assertEqual(len(fake.calls("ReadResult")), 1)


if __name__ == "__main__":
    unittest.main()
