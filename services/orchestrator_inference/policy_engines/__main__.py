from orchestrator_inference.policy_engines.config import PolicyEnginesSettings
from orchestrator_inference.policy_engines.worker import work
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings


def main() -> None:
    run(work(load_settings(PolicyEnginesSettings)))


if __name__ == "__main__":
    main()
