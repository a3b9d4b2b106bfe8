"""The socket of an attempt: where it is, what is said there, and what its answers mean. No calls: those are in ``_plain`` and
``_aio_attempt``."""

from __future__ import annotations

import os
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._attempt import Child, Detach, Input, ids, input_of
from ._calls import batches
from ._ids import new_job_id
from ._jobs import NewJob, PayloadLike, encode
from .errors import Refusal
from .node.v1 import attempt_service_pb2 as words
from .node.v1 import node_service_pb2 as node_wire

CHANNEL_OPTIONS: List[Tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    # A path is no authority.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    # Two workers of one process have two connections, and each attempt has its own.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "tenure-python-worker"),
]

#: What an agent on the same machine answers by itself takes no longer, in seconds.
LOCAL_S = 10.0
#: What it asks the server for takes no longer: it waits for a connection, and has a deadline of its own.
ASKING_S = 60.0
#: A server that is away for longer is told to the function, in seconds.
PATIENCE_S = 30.0
#: Between two tries, unless the answer says another time.
AGAIN_S = 0.2
#: Bytes of one message of children: under 1 MiB, whatever the agent adds.
_MOST_BYTES = 640 * 1024
#: Children of one question for their ends.
_MOST_NAMED = 1_000
#: A longer path is none that a socket can be named by.
_LONGEST = 100


class Address:
    """Where gRPC finds a Unix socket, however long its path is."""

    def __init__(self, path: str) -> None:
        self._directory: Optional[int] = None
        #: For a channel, for as long as it lives.
        self.target = f"unix:{path}"
        if len(os.fsencode(path)) > _LONGEST:
            directory, name = os.path.split(path)
            self._directory = os.open(directory, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
            self.target = f"unix:/proc/self/fd/{self._directory}/{name}"

    def close(self) -> None:
        """The channel is closed."""
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None


def progress(percent: int, message: str) -> words.ReportProgressRequest:
    """How it gets on."""
    return words.ReportProgressRequest(percent=percent, message=message)


def usage(counters: Mapping[str, int]) -> words.ReportUsageRequest:
    """What it used. Under its id it is added once, however often it is said."""
    return words.ReportUsageRequest(usage=dict(counters), report_id=new_job_id())


def checkpoint(data: PayloadLike) -> words.SaveCheckpointRequest:
    """What the next attempt goes on from."""
    return words.SaveCheckpointRequest(data=encode(data)[0])


def children(jobs: Sequence[NewJob]) -> Iterator[Tuple[List[NewJob], words.AttemptServiceEnqueueChildrenRequest]]:
    """Children, in as few messages as fit the wire."""
    for batch in batches(jobs, _MOST_BYTES):
        yield batch, words.AttemptServiceEnqueueChildrenRequest(jobs=[job.spec() for job in batch])


def wait(detach: Detach, wait_id: str) -> words.WaitForJobsRequest:
    """The same wait, however often it is asked for."""
    return words.WaitForJobsRequest(terms=detach.terms, wait_id=wait_id)


def may_not_stay(answer: words.WaitForJobsResponse) -> bool:
    """Whether it has to detach instead of waiting."""
    return answer.answer != node_wire.WAIT_ANSWER_GO


class Ends:
    """The ends of children, asked for page by page."""

    def __init__(self, named: Sequence[Child]) -> None:
        everything = ids(named)
        self._chunks = [everything[at : at + _MOST_NAMED] for at in range(0, len(everything), _MOST_NAMED)]
        self._before = 0
        self._from = 0
        #: So far, in their order.
        self.ends: List[Input] = []

    def next(self) -> Optional[words.AttemptServiceGetChildResultsRequest]:
        """The next question; None: that was all."""
        if not self._chunks:
            return None
        return words.AttemptServiceGetChildResultsRequest(job_ids=self._chunks[0], from_index=self._from)

    def take(self, answer: words.AttemptServiceGetChildResultsResponse) -> None:
        """Its answer."""
        self.ends += [input_of(told, self._before) for told in answer.results]
        self._from = answer.next_index
        if not self._from:
            self._before += len(self._chunks.pop(0))


def again(refusal: Refusal, waited: float, patience: Optional[float]) -> Optional[float]:
    """Seconds until the same is asked again; None: not again. Only of what is harmless to ask twice."""
    pause = refusal.retry_after or AGAIN_S
    return None if patience is not None and waited + pause >= patience else pause
