"""The calls of both clients about workflows: ``client.workflows``."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterable, Iterator, Protocol

from .v1 import workflow_service_pb2 as wire
from .workflows import (
    NewWorkflow,
    Submitted,
    WatchedWorkflow,
    Workflow,
    WorkflowState,
    WorkflowWithMembers,
    workflow_of,
)

_PAGE = 500


def _list(states: Iterable[WorkflowState]) -> wire.ListWorkflowsRequest:
    names = [f"WORKFLOW_STATE_{WorkflowState(state).name}" for state in states]
    return wire.ListWorkflowsRequest(states=names, page_size=_PAGE)


def _submitted(answer: wire.SubmitWorkflowResponse) -> Submitted:
    return Submitted(workflow_of("SubmitWorkflow", answer), answer.deduplicated)


class _Caller(Protocol):
    def _call(self, rpc: str, request: Any) -> Any: ...

    def _follow(self, rpc: str, request: Any, watched: Any) -> Iterator[Any]: ...


class Workflows:
    """The workflows of a fleet."""

    def __init__(self, client: _Caller) -> None:
        self._client = client

    def submit(self, workflow: NewWorkflow) -> Submitted:
        """Stores a workflow with all of its jobs. Once this returns, it survives a crash of the server.

        :raises Refusal: the server's no, to all of it; ``metadata["place"]`` names the job that it is about, if it is about one.
        :raises Unavailable: what became of it is not known. Submit the same ``NewWorkflow`` again.
        """
        return _submitted(self._client._call("SubmitWorkflow", workflow.request()))

    def check(self, workflow: NewWorkflow) -> None:
        """Judges a workflow and stores nothing.

        :raises Refusal: as ``submit`` would.
        """
        self._client._call("SubmitWorkflow", workflow.request(validate_only=True))

    def get(self, workflow_id: str) -> WorkflowWithMembers:
        """A workflow with its members.

        :raises WorkflowNotFound: if there is none.
        """
        request = wire.GetWorkflowRequest(workflow_id=workflow_id)
        return WorkflowWithMembers.of(self._client._call("GetWorkflow", request))

    def list(self, *states: WorkflowState) -> Iterator[Workflow]:
        """Workflows in one of these states, in any if none is named, newest first, page by page."""
        request = _list(states)
        while True:
            answer = self._client._call("ListWorkflows", request)
            yield from map(Workflow.of, answer.workflows)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def watch(self, workflow_id: str) -> Iterator[Workflow]:
        """The workflow as it stands, then after changes, until it is final. Goes on through restarts of the servers, as far as the
        retry policy reaches.

        :raises WorkflowNotFound: if there is none.
        """
        request = wire.WatchWorkflowRequest(workflow_id=workflow_id)
        yield from self._client._follow("WatchWorkflow", request, WatchedWorkflow())

    def wait(self, workflow_id: str) -> Workflow:
        """The workflow once it is final.

        :raises WorkflowNotFound: if there is none.
        """
        *_, last = self.watch(workflow_id)
        return last

    def cancel(self, workflow_id: str, reason: str = "") -> Workflow:
        """Cancels all members that have not ended. Twice is as good as once.

        :raises WorkflowNotFound: if there is none. :raises PreconditionFailed: if it ended otherwise.
        """
        request = wire.CancelWorkflowRequest(workflow_id=workflow_id, reason=reason)
        return workflow_of("CancelWorkflow", self._client._call("CancelWorkflow", request))

    def requeue_member(self, workflow_id: str, place: int) -> Workflow:
        """Takes a dead or cancelled member back, and what is behind it.

        :raises WorkflowNotFound: if there is none.
        :raises PreconditionFailed: if the member has succeeded, a job of the workflow is gone, or somebody has its result.
        """
        request = wire.RequeueMemberRequest(workflow_id=workflow_id, place=place)
        return workflow_of("RequeueMember", self._client._call("RequeueMember", request))


class _AsyncCaller(Protocol):
    async def _call(self, rpc: str, request: Any) -> Any: ...

    def _follow(self, rpc: str, request: Any, watched: Any) -> AsyncIterator[Any]: ...


class AsyncWorkflows:
    """The workflows of a fleet: ``Workflows``, with ``await``."""

    def __init__(self, client: _AsyncCaller) -> None:
        self._client = client

    async def submit(self, workflow: NewWorkflow) -> Submitted:
        """Stores a workflow with all of its jobs. Once this returns, it survives a crash of the server.

        :raises Refusal: the server's no, to all of it; ``metadata["place"]`` names the job that it is about, if it is about one.
        :raises Unavailable: what became of it is not known. Submit the same ``NewWorkflow`` again.
        """
        return _submitted(await self._client._call("SubmitWorkflow", workflow.request()))

    async def check(self, workflow: NewWorkflow) -> None:
        """Judges a workflow and stores nothing.

        :raises Refusal: as ``submit`` would.
        """
        await self._client._call("SubmitWorkflow", workflow.request(validate_only=True))

    async def get(self, workflow_id: str) -> WorkflowWithMembers:
        """A workflow with its members.

        :raises WorkflowNotFound: if there is none.
        """
        request = wire.GetWorkflowRequest(workflow_id=workflow_id)
        return WorkflowWithMembers.of(await self._client._call("GetWorkflow", request))

    async def list(self, *states: WorkflowState) -> AsyncIterator[Workflow]:
        """Workflows in one of these states, in any if none is named, newest first, page by page."""
        request = _list(states)
        while True:
            answer = await self._client._call("ListWorkflows", request)
            for workflow in answer.workflows:
                yield Workflow.of(workflow)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def watch(self, workflow_id: str) -> AsyncIterator[Workflow]:
        """The workflow as it stands, then after changes, until it is final. Goes on through restarts of the servers, as far as the
        retry policy reaches.

        :raises WorkflowNotFound: if there is none.
        """
        request = wire.WatchWorkflowRequest(workflow_id=workflow_id)
        async for workflow in self._client._follow("WatchWorkflow", request, WatchedWorkflow()):
            yield workflow

    async def wait(self, workflow_id: str) -> Workflow:
        """The workflow once it is final.

        :raises WorkflowNotFound: if there is none.
        """
        seen = [workflow async for workflow in self.watch(workflow_id)]
        return seen[-1]

    async def cancel(self, workflow_id: str, reason: str = "") -> Workflow:
        """Cancels all members that have not ended. Twice is as good as once.

        :raises WorkflowNotFound: if there is none. :raises PreconditionFailed: if it ended otherwise.
        """
        request = wire.CancelWorkflowRequest(workflow_id=workflow_id, reason=reason)
        return workflow_of("CancelWorkflow", await self._client._call("CancelWorkflow", request))

    async def requeue_member(self, workflow_id: str, place: int) -> Workflow:
        """Takes a dead or cancelled member back, and what is behind it.

        :raises WorkflowNotFound: if there is none.
        :raises PreconditionFailed: if the member has succeeded, a job of the workflow is gone, or somebody has its result.
        """
        request = wire.RequeueMemberRequest(workflow_id=workflow_id, place=place)
        return workflow_of("RequeueMember", await self._client._call("RequeueMember", request))
