from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.server import serve
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings


def main() -> None:
    run(serve(load_settings(OrchestratorInferenceSettings)))


if __name__ == "__main__":
    main()
