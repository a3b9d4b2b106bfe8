"""What a description of a workflow becomes on the wire."""

from __future__ import annotations

import unittest

import tenure
from tenure.v1 import workflow_service_pb2 as wire


def kinds(part: wire.WorkflowPart) -> str:
    which = part.WhichOneof("part")
    if which == "job":
        return part.job.kind
    if which == "chord":
        members = " ".join(map(kinds, part.chord.members))
        return f"chord({members} -> {part.chord.synthesis.kind})"
    return f"{which}({' '.join(map(kinds, getattr(part, which or 'chain').parts))})"


class Describing(unittest.TestCase):
    def test_parts_stand_in_each_other_and_jobs_have_no_names_of_their_own(self) -> None:
        a, b, c = (tenure.NewJob(kind, kind, dedupe_key="k", parent_id="p") for kind in "abc")
        chord = tenure.chord([a, tenure.chain(b, tenure.group(c, c))], b, at_least=1, deadline=1.5)
        workflow = tenure.NewWorkflow(tenure.chain(a, chord, b), name="n")
        request = workflow.request()
        self.assertEqual(kinds(request.workflow), "chain(a chord(a chain(b group(c c)) -> b) b)")
        self.assertEqual((request.workflow_id, request.name), (workflow.id, "n"))
        self.assertEqual(workflow.request(), request, "the same value is the same workflow")
        job = request.workflow.chain.parts[0].job
        self.assertEqual((job.job_id, job.dedupe_key, job.parent_id, job.payload.data), ("", "", "", b"a"))
        made = request.workflow.chain.parts[1].chord
        self.assertEqual((made.policy, made.at_least), (wire.SYNTHESIS_POLICY_AT_LEAST, 1))
        self.assertEqual((made.deadline.seconds, made.deadline.nanos), (1, 500_000_000))
        self.assertEqual(made.on_deadline, wire.ON_DEADLINE_UNSPECIFIED)

    def test_a_synthesis_has_one_policy(self) -> None:
        job = tenure.NewJob("k")
        any_ = tenure.chord([job], job, policy=tenure.Policy.ANY, leave_the_rest=True).proto.chord
        self.assertEqual((any_.policy, any_.on_deadline), (wire.SYNTHESIS_POLICY_ANY, wire.ON_DEADLINE_LEAVE))
        self.assertEqual(tenure.chord([job], job).proto.chord.policy, wire.SYNTHESIS_POLICY_ALL)
        for at_least, policy in [(0, tenure.Policy.ALL), (2, tenure.Policy.ALWAYS)]:
            with self.assertRaises(ValueError):
                tenure.chord([job], job, at_least=at_least, policy=policy)

    def test_a_state_of_a_newer_server_is_unknown_and_not_final(self) -> None:
        known = tenure.Workflow.of(wire.Workflow(state=wire.WORKFLOW_STATE_DEAD, members_by_state={"dead": 2}))
        self.assertTrue(known.state is tenure.WorkflowState.DEAD and known.state.is_final)
        self.assertEqual((known.members_by_state, known.finish_time), ({"dead": 2}, None))
        newer = tenure.Workflow.of(wire.Workflow(state=99))  # type: ignore[arg-type]
        self.assertTrue(newer.state is tenure.WorkflowState.UNKNOWN and not newer.state.is_final)


if __name__ == "__main__":
    unittest.main()
