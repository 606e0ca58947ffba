from typing import Any

import grpc

from episodes.errors import InvalidEvaluation
from episodes.evaluations.convert import (
    STATE_FROM_WIRE,
    calibration_to_proto,
    check_calibration,
    check_live,
    comparison_to_proto,
    evaluation_from_proto,
    evaluation_to_proto,
    judge_verdict_from_proto,
    judge_verdict_to_proto,
    live_from_proto,
    progress_to_proto,
    trial_to_proto,
    verdict_from_proto,
)
from episodes.evaluations.service import Evaluations
from episodes.evaluations.store_calibrations import CalibrationStore
from episodes.keys import canonical_id
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.episodes.v1.evaluation_service_pb2_grpc import EvaluationServiceServicer
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import (
    InvalidPageToken,
    decode_page_token,
    encode_page_token,
    page_size,
    token_number,
)
from podium_kit.wire import timestamp_to_proto

Context = grpc.aio.ServicerContext[Any, Any]
SIZE_DEFAULT, SIZE_MAX = 50, 500


class EvaluationsServicer(EvaluationServiceServicer):
    def __init__(self, evaluations: Evaluations, calibrations: CalibrationStore) -> None:
        self._evaluations = evaluations
        self._calibrations = calibrations

    async def CreateEvaluation(
        self, request: pb.CreateEvaluationRequest, context: Context
    ) -> pb.CreateEvaluationResponse:
        new = evaluation_from_proto(request.evaluation, request.items, current_identity())
        stored = await self._evaluations.create(new)
        return pb.CreateEvaluationResponse(evaluation=evaluation_to_proto(stored))

    async def GetEvaluation(
        self, request: pb.GetEvaluationRequest, context: Context
    ) -> pb.GetEvaluationResponse:
        stored = await self._evaluations.get(request.evaluation_id)
        message = evaluation_to_proto(stored)
        names = [arm.name for arm in message.arms]
        progress = await self._evaluations.progress(stored, names)
        reply = pb.GetEvaluationResponse(
            evaluation=message, progress=map(progress_to_proto, progress)
        )
        if message.HasField("traffic"):
            scores = await self._evaluations.live_scores(stored, names)
            reply.comparison.CopyFrom(comparison_to_proto(*scores))
        return reply

    async def ListEvaluations(
        self, request: pb.ListEvaluationsRequest, context: Context
    ) -> pb.ListEvaluationsResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        before = _before(request.page_token)
        found = await self._evaluations.list(before, size + 1)
        page = found[:size]
        token = encode_page_token({"before": page[-1].id}) if len(found) > size else ""
        return pb.ListEvaluationsResponse(
            evaluations=map(evaluation_to_proto, page), next_page_token=token
        )

    async def ListTrials(
        self, request: pb.ListTrialsRequest, context: Context
    ) -> pb.ListTrialsResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        first = token_number(decode_page_token(request.page_token), "first", request.first_place)
        found = await self._evaluations.trials(
            request.evaluation_id, min(first, 2**31 - 1), size + 1, with_items=request.with_items
        )
        page = found[:size]
        more = len(found) > size
        token = encode_page_token({"first": str(page[-1].planned.place + 1)}) if more else ""
        return pb.ListTrialsResponse(trials=map(trial_to_proto, page), next_page_token=token)

    async def RecordVerdict(
        self, request: pb.RecordVerdictRequest, context: Context
    ) -> pb.RecordVerdictResponse:
        verdict = verdict_from_proto(request)
        trial = await self._evaluations.record_verdict(request.evaluation_id, verdict)
        return pb.RecordVerdictResponse(trial=trial_to_proto(trial))

    async def UpdateEvaluation(
        self, request: pb.UpdateEvaluationRequest, context: Context
    ) -> pb.UpdateEvaluationResponse:
        state = STATE_FROM_WIRE.get(request.state)
        if state is None:
            raise InvalidEvaluation(f"state {request.state} is none; give running, paused or ended")
        stored = await self._evaluations.update(request.evaluation_id, state, request.reason)
        return pb.UpdateEvaluationResponse(evaluation=evaluation_to_proto(stored))

    async def StartLiveEvaluation(
        self, request: pb.StartLiveEvaluationRequest, context: Context
    ) -> pb.StartLiveEvaluationResponse:
        check_live(request.evaluation)
        new = live_from_proto(request.evaluation, current_identity())
        stored = await self._evaluations.start_live(new)
        return pb.StartLiveEvaluationResponse(evaluation=evaluation_to_proto(stored))

    async def StopLiveEvaluation(
        self, request: pb.StopLiveEvaluationRequest, context: Context
    ) -> pb.StopLiveEvaluationResponse:
        stored = await self._evaluations.stop_live(request.evaluation_id, request.reason)
        return pb.StopLiveEvaluationResponse(evaluation=evaluation_to_proto(stored))

    async def RecordVerdicts(
        self, request: pb.RecordVerdictsRequest, context: Context
    ) -> pb.RecordVerdictsResponse:
        verdicts = list(map(judge_verdict_from_proto, request.verdicts))
        await self._evaluations.record_verdicts(request.evaluation_id, verdicts)
        return pb.RecordVerdictsResponse()

    async def ListVerdicts(
        self, request: pb.ListVerdictsRequest, context: Context
    ) -> pb.ListVerdictsResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        token = decode_page_token(request.page_token)
        after = (
            (token_number(token, "place", 0), token.get("judge", ""), token.get("prompt", ""))
            if token
            else None
        )
        found = await self._evaluations.verdicts(request.evaluation_id, after, size + 1)
        page = found[:size]
        last = page[-1] if len(found) > size else None
        place = last and {
            "place": str(last.place),
            "judge": last.judge,
            "prompt": last.prompt_digest,
        }
        return pb.ListVerdictsResponse(
            verdicts=map(judge_verdict_to_proto, page),
            next_page_token=encode_page_token(place) if place else "",
        )

    async def RecordJudgeCalibration(
        self, request: pb.RecordJudgeCalibrationRequest, context: Context
    ) -> pb.RecordJudgeCalibrationResponse:
        check_calibration(request.calibration)
        caller = current_identity()
        body = request.calibration.SerializeToString()
        await self._calibrations.add(caller.tenant, request.calibration.id, caller.subject, body)
        return pb.RecordJudgeCalibrationResponse()

    async def ListJudgeCalibrations(
        self, request: pb.ListJudgeCalibrationsRequest, context: Context
    ) -> pb.ListJudgeCalibrationsResponse:
        size = page_size(request.page_size, SIZE_DEFAULT, SIZE_MAX)
        before = _before(request.page_token)
        found = await self._calibrations.list(current_identity().tenant, before, size + 1)
        page = found[:size]
        token = encode_page_token({"before": page[-1].id}) if len(found) > size else ""
        return pb.ListJudgeCalibrationsResponse(
            calibrations=map(calibration_to_proto, page), next_page_token=token
        )

    async def RecordEvaluationReport(
        self, request: pb.RecordEvaluationReportRequest, context: Context
    ) -> pb.RecordEvaluationReportResponse:
        await self._evaluations.record_report(request.evaluation_id, request.report_json)
        return pb.RecordEvaluationReportResponse()

    async def GetEvaluationReport(
        self, request: pb.GetEvaluationReportRequest, context: Context
    ) -> pb.GetEvaluationReportResponse:
        report, create_time = await self._evaluations.report(request.evaluation_id)
        return pb.GetEvaluationReportResponse(
            report_json=report, create_time=timestamp_to_proto(create_time)
        )


def _before(page_token: str) -> str | None:
    """The id after which a page of the newest begins; None for the first page."""
    before = decode_page_token(page_token).get("before")
    if before is not None and canonical_id(before) is None:
        raise InvalidPageToken
    return before
