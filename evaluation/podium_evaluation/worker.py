"""`python -m podium_evaluation.worker`: works on rollouts and evaluations, as a pod does."""

from podium_evaluation.runs.submission import work_on_both
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from podium_training.rollouts.worker import WorkerSettings, serve


def main() -> None:
    run(serve(load_settings(WorkerSettings), work_on_both))


if __name__ == "__main__":
    main()
