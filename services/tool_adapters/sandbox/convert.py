from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.adapters.v1 import tool_adapter_service_pb2 as adapter_pb
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    failure_from_proto,
    failure_to_proto,
)
from tool_adapters.adapter import OutputFile
from tool_adapters.sandbox.limits import Limits
from tool_adapters.sandbox.sandbox import Execution, Job, Ran

WALL_TIME_MAX_S = 600.0


def job_to_proto(job: Job) -> pb.RunCodeRequest:
    return pb.RunCodeRequest(
        code=job.code,
        stateful=job.stateful,
        state=job.state,
        # A tool may have an hour; the pods end a run before.
        wall_time=duration_to_proto(min(job.limits.wall_time_s, WALL_TIME_MAX_S)),
        memory_bytes=job.limits.memory_bytes,
        output_bytes=job.limits.output_bytes,
        files_bytes=job.limits.files_bytes,
    )


def job_from_proto(request: pb.RunCodeRequest) -> Job:
    limits = Limits(
        wall_time_s=duration_from_proto(request.wall_time),
        memory_bytes=request.memory_bytes,
        output_bytes=request.output_bytes,
        files_bytes=request.files_bytes,
    )
    if not 0 < limits.wall_time_s <= WALL_TIME_MAX_S:
        raise InvalidArgument(f"wall_time is not between 0 and {WALL_TIME_MAX_S:g} s")
    if limits.memory_bytes <= 0 or limits.output_bytes <= 0 or limits.files_bytes < 0:
        raise InvalidArgument("memory_bytes and output_bytes are positive, files_bytes at least 0")
    return Job(request.code, request.stateful, limits, request.state)


def ran_to_proto(ran: Ran) -> pb.RunCodeResponse:
    execution = ran.execution
    response = pb.RunCodeResponse(
        stdout=execution.stdout,
        stderr=execution.stderr,
        files=[
            adapter_pb.OutputFile(name=file.name, media_type=file.media_type, data=file.data)
            for file in execution.files
        ],
        left_out=execution.left_out,
        duration=duration_to_proto(execution.duration_s),
        state=ran.state,
    )
    if execution.failure:
        response.failure.CopyFrom(failure_to_proto(execution.failure))
    return response


def ran_from_proto(response: pb.RunCodeResponse) -> Ran:
    execution = Execution(
        response.stdout,
        response.stderr,
        tuple(OutputFile(file.name, file.media_type, file.data) for file in response.files),
        failure_from_proto(response.failure) if response.HasField("failure") else None,
        duration_from_proto(response.duration),
        tuple(response.left_out),
    )
    return Ran(execution, response.state)
