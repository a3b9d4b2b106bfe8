"""A server that answers by script, on a port of its own."""

from __future__ import annotations

import threading
from concurrent import futures
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Tuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from tenure.v1 import job_pb2
from tenure.v1 import job_service_pb2 as wire
from tenure.v1.job_service_pb2_grpc import JobServiceServicer, add_JobServiceServicer_to_server

Step = Callable[[Any], Any]


class No(Exception):
    """An answer that is a refusal."""

    def __init__(
        self, code: grpc.StatusCode, reason: str = "", *details: Any, message: str = "no", **metadata: str
    ) -> None:
        super().__init__(reason)
        self.more = metadata
        self.code, self.message = code, message
        self.status = status_pb2.Status(code=code.value[0], message=message)
        everything = list(details)
        if reason:
            metadata = {"kind": "k", **self.more}
            everything.insert(0, error_details_pb2.ErrorInfo(reason=reason, domain="tenure", metadata=metadata))
        for detail in everything:
            packed = AnyMessage()
            packed.Pack(detail)
            self.status.details.append(packed)


def retry_info(seconds: float) -> error_details_pb2.RetryInfo:
    nanos = round(seconds * 1e9)
    delay = Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)
    return error_details_pb2.RetryInfo(retry_delay=delay)


class Fake(JobServiceServicer):
    """Each call of a method takes the next of its steps; the last one stays."""

    def __init__(self, **steps: List[Step]) -> None:
        self.steps = steps
        self.seen: List[Tuple[str, Any]] = []
        self._lock = threading.Lock()

    def calls(self, rpc: str) -> List[Any]:
        return [request for name, request in self.seen if name == rpc]

    def _step(self, rpc: str, request: Any) -> Step:
        with self._lock:
            self.seen.append((rpc, request))
            steps = self.steps[rpc]
            return steps.pop(0) if len(steps) > 1 else steps[0]

    def _answer(self, rpc: str, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return self._step(rpc, request)(request)
        except No as no:
            refuse(context, no)

    def Enqueue(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("Enqueue", request, context)

    def EnqueueBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("EnqueueBatch", request, context)

    def GetJob(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("GetJob", request, context)

    def WaitJob(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("WaitJob", request, context)

    def GetResult(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("GetResult", request, context)

    def ListJobs(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer("ListJobs", request, context)

    def WatchJob(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self._step("WatchJob", request)(request)
        except No as no:
            refuse(context, no)

    def ReadResult(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self._step("ReadResult", request)(request)
        except No as no:
            refuse(context, no)


def refuse(context: grpc.ServicerContext, no: No) -> None:
    if no.status.details:
        context.set_trailing_metadata([("grpc-status-details-bin", no.status.SerializeToString())])
    context.abort(no.code, no.message)


def stored(state: int = job_pb2.JOB_STATE_QUEUED, version: int = 1, **fields: Any) -> job_pb2.Job:
    return job_pb2.Job(id=fields.pop("id", "j"), kind="k", state=state, version=version, **fields)


def enqueued(request: wire.EnqueueRequest, deduplicated: bool = False) -> wire.EnqueueResponse:
    return wire.EnqueueResponse(job=stored(id=request.job.job_id), deduplicated=deduplicated)


def refuse_with(no: No) -> Step:
    def step(_: Any) -> Any:
        raise no

    return step


@contextmanager
def serving(fake: Optional[Fake] = None, port: int = 0, **steps: List[Step]) -> Iterator["Tuple[Fake, str]"]:
    """Serves until the block ends: the fake and its address."""
    fake = fake or Fake(**steps)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    add_JobServiceServicer_to_server(fake, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield fake, f"http://127.0.0.1:{bound}"
    finally:
        server.stop(None).wait()
