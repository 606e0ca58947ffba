from cost_ledger.config import CostLedgerSettings
from cost_ledger.server import serve
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings


def main() -> None:
    settings = load_settings(CostLedgerSettings)
    run(serve(settings))


if __name__ == "__main__":
    main()
