from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.guardrail_keys import guardrail_key
from podium_kit.limits.concurrency import FairThread
from podium_kit.rpc.identity import current_identity
from tool_adapters.guardrails.models import (
    Guardrail,
    GuardrailAction,
    GuardrailFinding,
    Read,
    Reading,
    ServerCheck,
    Subject,
)
from tool_adapters.guardrails.servers import ServerGuardrails, Undecided
from tool_adapters.models import GuardrailDecision, Stage, Verdict

# A millisecond or two.
READ_AT_ONCE_CHARACTERS_MAX = 16_384
NAMES = {Stage.INPUT: "the call", Stage.OUTPUT: "the result", Stage.ANSWER: "the answer"}


@dataclass(frozen=True)
class Guardrails:
    servers: ServerGuardrails
    reading: FairThread = field(default_factory=FairThread)

    async def read(
        self,
        guardrails: Sequence[Guardrail],
        key: str,
        stage: Stage,
        subject: Subject,
        *,
        tool: str = "",
        model: str = "",
    ) -> Read[Subject]:
        """Reads the texts of a subject, each guardrail what those before it leave.

        `key` is the call's.
        """
        result = Read(subject)
        for index, guardrail in enumerate(guardrails):
            if stage not in guardrail.stages:
                continue
            attributes = {"podium.guardrail": guardrail.name, "podium.guardrail.stage": stage.value}
            with telemetry.span("guardrail", {**attributes}) as span:
                decision = GuardrailDecision(guardrail.name, stage, Verdict.PASSED)
                if guardrail.has_price:
                    ledger_key = guardrail_key(key, stage.value, index)
                    decision = replace(decision, ledger_key=ledger_key)
                result = await self._applied(guardrail, decision, result, tool, model)
                span.set_attribute("podium.guardrail.verdict", result.decisions[-1].verdict.value)
            if result.failure is not None:
                break
        return result

    async def _applied(
        self,
        guardrail: Guardrail,
        decision: GuardrailDecision,
        before: Read[Subject],
        tool: str,
        model: str,
    ) -> Read[Subject]:
        subject = before.subject
        reading = Reading(decision.stage, tool, model, subject.texts, subject.document)
        try:
            finding = await self._found(guardrail, reading)
        except Undecided as error:
            assert isinstance(guardrail.check, ServerCheck)
            decision = replace(decision, reason=f"it gave no answer: {error}")
            if guardrail.check.passes_on_error:
                return _with(before, replace(decision, verdict=Verdict.FAILED))
            return _blocked(before, decision)
        if finding is None:
            return _with(before, decision)
        decision = replace(decision, reason=finding.reason)
        if guardrail.action is GuardrailAction.FLAG:
            return _with(before, replace(decision, verdict=Verdict.FLAGGED))
        if guardrail.action is GuardrailAction.BLOCK or finding.texts is None:
            return _blocked(before, decision)
        redacted = replace(before, subject=subject.with_texts(finding.texts))
        return _with(redacted, replace(decision, verdict=Verdict.REDACTED))

    async def _found(self, guardrail: Guardrail, reading: Reading) -> GuardrailFinding | None:
        check = guardrail.check
        if isinstance(check, ServerCheck):
            return await self.servers.find(guardrail, check, reading)
        if sum(map(len, reading.texts)) <= READ_AT_ONCE_CHARACTERS_MAX:
            return check.find(reading)
        # While the event loop serves others.
        tenant = current_identity().tenant
        return await self.reading.run(tenant, lambda: check.find(reading))


def _with(read: Read[Subject], decision: GuardrailDecision) -> Read[Subject]:
    return replace(read, decisions=(*read.decisions, decision))


def _blocked(read: Read[Subject], decision: GuardrailDecision) -> Read[Subject]:
    name = NAMES[decision.stage]
    message = f"the guardrail {decision.guardrail} blocked {name}: {decision.reason}"
    failure = ToolFailure(FailureKind.BLOCKED, message)
    blocked = replace(decision, verdict=Verdict.BLOCKED)
    return replace(_with(read, blocked), failure=failure)
