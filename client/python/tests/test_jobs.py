"""What a job looks like on the wire."""

from __future__ import annotations

import unittest
import uuid
from datetime import datetime, timedelta, timezone

import tenure
from tenure.v1 import job_pb2


class Describing(unittest.TestCase):
    def test_a_payload_has_the_media_type_of_what_it_is(self) -> None:
        for payload, data, content_type in [
            (b"\0\1", b"\0\1", "application/octet-stream"),
            ("grün", "grün".encode(), "text/plain; charset=utf-8"),
            ({"a": ["ü", None]}, '{"a":["ü",null]}'.encode(), "application/json"),
            ([], b"[]", "application/json"),
            (0, b"0", "application/json"),
        ]:
            spec = tenure.NewJob("k", payload).spec()  # type: ignore[arg-type]
            self.assertEqual((spec.payload.data, spec.payload.content_type), (data, content_type))
        self.assertFalse(tenure.NewJob("k").spec().HasField("payload"))
        self.assertEqual(tenure.NewJob("k", "{}", content_type="a/b").spec().payload.content_type, "a/b")

    def test_what_is_no_json_is_refused_before_it_is_sent(self) -> None:
        with self.assertRaises(TypeError):
            tenure.NewJob("k", {"a": object()}).spec()

    def test_every_field_arrives(self) -> None:
        at = datetime(2027, 3, 28, 2, 30, tzinfo=timezone(timedelta(hours=1)))
        job = tenure.NewJob(
            "k", dedupe_key="d", concurrency_key="c", tenant="t", priority=0, run_at=at, stale_after=1.5,
            labels={"a": "b"}, selector=["gpu in (a100, h100)", "!spot"], prefer=["zone=eu"], needs={},
            hard_time_limit=timedelta(minutes=2), parent_id="p", on_parent_cancel=tenure.OnParent.KEEP,
            on_parent_lost=tenure.OnParent.CANCEL, traceparent="tp", tracestate="ts",
        )  # fmt: skip
        spec = job.spec()
        self.assertEqual(spec.job_id, job.id)
        self.assertTrue(spec.HasField("priority"))
        self.assertEqual(spec.run_at.seconds, int(datetime(2027, 3, 28, 1, 30, tzinfo=timezone.utc).timestamp()))
        self.assertEqual((spec.stale_after.seconds, spec.stale_after.nanos), (1, 500_000_000))
        self.assertEqual(spec.hard_time_limit.seconds, 120)
        self.assertTrue(spec.HasField("needs") and not spec.needs.slots)
        self.assertEqual(spec.on_parent_cancel, job_pb2.ON_PARENT_KEEP)
        self.assertEqual(spec.on_parent_lost, job_pb2.ON_PARENT_CANCEL)
        unset = {"payload", "delay", "selector"}
        present = {field.name for field, _ in spec.ListFields()}
        known = {field for field in job_pb2.JobSpec.DESCRIPTOR.fields_by_name}
        told = known - present - unset
        self.assertEqual(told & set(tenure.NewJob.__dataclass_fields__), set(), "described, and not sent")
        self.assertEqual(tenure.NewJob("k", delay=2).spec().delay.seconds, 2)

    def test_a_time_without_a_zone_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "zone"):
            tenure.NewJob("k", run_at=datetime(2027, 1, 1)).spec()

    def test_requirements_are_read(self) -> None:
        in_, not_in = job_pb2.REQUIREMENT_OPERATOR_IN, job_pb2.REQUIREMENT_OPERATOR_NOT_IN
        exists, absent = job_pb2.REQUIREMENT_OPERATOR_EXISTS, job_pb2.REQUIREMENT_OPERATOR_NOT_EXISTS
        for text, operator, label, values in [
            ("os=linux", in_, "os", ["linux"]),
            ("os != linux", not_in, "os", ["linux"]),
            ("gpu in (a100, h100)", in_, "gpu", ["a100", "h100"]),
            ("gpu not in (a100)", not_in, "gpu", ["a100"]),
            ("example.org/gpu", exists, "example.org/gpu", []),
            ("!gpu", absent, "gpu", []),
        ]:
            read = tenure.requirement(text)
            self.assertEqual((read.operator, read.label, list(read.values)), (operator, label, values), text)
        for bad in ["", "a b", "gpu in ()", "gpu in (a,,b)", "a=b=c", "=x"]:
            with self.assertRaises(ValueError, msg=bad):
                tenure.requirement(bad)

    def test_ids_are_of_version_7_and_sort_by_birth(self) -> None:
        ids = [tenure.new_job_id() for _ in range(2_000)]
        self.assertEqual(ids, sorted(set(ids)))
        one = uuid.UUID(ids[0])
        self.assertEqual((one.version, one.variant), (7, uuid.RFC_4122))
        born = datetime.fromtimestamp((one.int >> 80) / 1000, timezone.utc)
        self.assertLess(abs(datetime.now(timezone.utc) - born), timedelta(minutes=1))


if __name__ == "__main__":
    unittest.main()
