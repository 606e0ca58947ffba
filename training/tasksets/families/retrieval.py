"""Questions about Larkfield Instruments, which only the bundled library knows."""

from random import Random

from tasksets.draft import Draft, Wordings
from tasksets.library import products
from tasksets.splits import split_of
from tasksets.task import Call, Split

KINDS = {
    "warranty": Wordings(
        (
            "How many months of warranty does the Larkfield {product} have?",
            "What is the warranty of the Larkfield {product} in months?",
        ),
        ("For how many months does Larkfield Instruments vouch for the {product}?",),
    ),
    "price": Wordings(
        (
            "What does the Larkfield {product} cost in euros?",
            "How many euros is a {product} of Larkfield?",
        ),
        ("A customer wants one Larkfield {product}. What is to be paid, in euros?",),
    ),
    "weight": Wordings(
        (
            "What does the Larkfield {product} weigh in grams?",
            "Give the weight of the Larkfield {product} in grams.",
        ),
        ("How many grams must a shelf for one Larkfield {product} carry?",),
    ),
    "launch": Wordings(
        (
            "In which year was the Larkfield {product} launched?",
            "When did Larkfield launch the {product}? Give the year.",
        ),
        ("Since which year has the Larkfield {product} been on sale?",),
    ),
}


def draw(random: Random, split: Split) -> Draft:
    """One fact about one product."""
    product = random.choice([each for each in products() if split_of(each.name) is split])
    kind, wordings = random.choice(list(KINDS.items()))
    parameters = {"expected": getattr(product, kind)}
    call = search(f"{kind} of the {product.name}")
    return Draft(wordings, {"product": product.name}, "numeric", parameters, (call,))


def search(query: str) -> Call:
    """A look into the library."""
    return Call("search_corpus", {"query": query})
