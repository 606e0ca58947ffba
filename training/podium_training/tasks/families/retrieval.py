"""Questions about Larkfield Instruments, which only the bundled library knows."""

from random import Random

from podium_training.tasks.draft import Draft
from podium_training.tasks.library import products
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Call, Split

KINDS = ("warranty", "price", "weight", "designer", "launch")


def draw(random: Random, split: Split) -> Draft:
    product = random.choice([each for each in products() if split_of(each.name) is split])
    kind = random.choice(KINDS)
    parameters = {"expected": getattr(product, kind)}
    call = search(f"{kind} of the {product.name}")
    verifier = "contains" if kind == "designer" else "numeric"
    return Draft(kind, {"product": product.name}, verifier, parameters, (call,))


def search(query: str) -> Call:
    """A look into the library: the best passage alone, since a prompt keeps the end of many."""
    return Call("search_corpus", {"query": query, "top_k": 1})
