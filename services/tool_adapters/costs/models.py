from dataclasses import dataclass

from podium_kit.metering import Usage


@dataclass(frozen=True)
class AdapterCost:
    """The usage of a request that the adapters make on their own; None while it is unknown.

    `tool` names it in reports. `held`: money is held under the key, unless the ledger rejected that
    or never received it; `unused`: nothing was bought.
    """

    key: str
    tenant: str
    subject: str
    tool: str
    sku: str
    usage: Usage | None = None
    held: bool = True
    unused: bool = False
