from podium_kit.rpc.errors import FailedPrecondition, Unavailable

SAID_CHARS_MAX = 500


class ClusterUnreachable(Unavailable):
    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the API server does not answer: {cause}; let the pod reach it "
            "(endpoints.kubernetes) and mount its account, or set KUBECONFIG"
        )


class ClusterRejected(FailedPrecondition):
    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"the API server rejects with {status}: {said[:SAID_CHARS_MAX]}")
        self.status = status
