"""Questions about Larkfield Instruments, which only the bundled library knows."""

from random import Random

from podium_training.tasks.draft import Draft, Phrasings
from podium_training.tasks.library import products
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Call, Split

KINDS = {
    "warranty": Phrasings(
        (
            "How many months of warranty does the Larkfield {product} have?",
            "What is the warranty of the Larkfield {product} in months?",
            "How long is the warranty of the {product} by Larkfield? Give months.",
            "Larkfield {product}: for how many months is it under warranty?",
            "A {product} made by Larkfield broke. Within how many months is its repair free?",
            "State the months of warranty that come with a Larkfield {product}.",
            "Tell me how many months of warranty Larkfield gives on the {product}.",
            "Look up the warranty of Larkfield's {product}, in months.",
            "The {product} of Larkfield: what is its warranty, in months?",
            "After how many months does the warranty of a Larkfield {product} end?",
            "How many months does Larkfield guarantee its {product}?",
        ),
        (
            "For how many months does Larkfield Instruments vouch for the {product}?",
            "How many months of cover does the maker Larkfield give its {product}?",
            "I own a Larkfield {product}. After how many months does its warranty end?",
        ),
    ),
    "price": Phrasings(
        (
            "What does the Larkfield {product} cost in euros?",
            "How many euros is a {product} of Larkfield?",
            "What is the price of the Larkfield {product} in euros?",
            "Look up the price in euros of Larkfield's {product}.",
            "Larkfield {product}: how much is one, in euros?",
            "How many euros does Larkfield ask for its {product}?",
            "Tell me the price of the {product} by Larkfield, in euros.",
            "What do I pay for one Larkfield {product}, in euros?",
            "The {product} of Larkfield: what is its price in euros?",
            "Find the price in euros of a Larkfield {product}.",
            "For how many euros does Larkfield sell the {product}?",
        ),
        (
            "A customer wants one Larkfield {product}. What is to be paid, in euros?",
            "At how many euros is the {product} in Larkfield's list?",
            "What sum in euros buys a Larkfield {product}?",
        ),
    ),
    "weight": Phrasings(
        (
            "What does the Larkfield {product} weigh in grams?",
            "Give the weight of the Larkfield {product} in grams.",
            "How heavy is the {product} by Larkfield, in grams?",
            "Larkfield {product}: what is its weight in grams?",
            "How many grams does Larkfield's {product} weigh?",
            "A parcel holds one Larkfield {product}. How many grams are inside?",
            "Tell me the weight of the {product} by Larkfield, in grams.",
            "Look up how many grams a Larkfield {product} has.",
            "The {product} of Larkfield: how many grams is it?",
            "Find the weight in grams of a Larkfield {product}.",
            "How much does one {product} of Larkfield weigh, in grams?",
        ),
        (
            "How many grams must a shelf for one Larkfield {product} carry?",
            "What do scales show, in grams, for a Larkfield {product}?",
            "With a {product} of Larkfield in my bag, how many grams more do I carry?",
        ),
    ),
    "designer": Phrasings(
        (
            "Who designed the Larkfield {product}?",
            "Name the designer of the Larkfield {product}.",
            "Which person designed Larkfield's {product}?",
            "By whom was the {product} of Larkfield designed?",
            "Larkfield {product}: who is its designer?",
            "Tell me who designed the {product} by Larkfield.",
            "Look up the designer of Larkfield's {product}.",
            "The {product} of Larkfield: who designed it?",
            "Find out who the designer of the Larkfield {product} was.",
            "Who is named as designer of the Larkfield {product}?",
        ),
        (
            "Whose design is the Larkfield {product}?",
            "Whom may Larkfield thank for designing the {product}?",
        ),
    ),
    "launch": Phrasings(
        (
            "In which year was the Larkfield {product} launched?",
            "When did Larkfield launch the {product}? Give the year.",
            "What is the launch year of the Larkfield {product}?",
            "Larkfield {product}: in which year did it come out?",
            "Name the year in which Larkfield brought out the {product}.",
            "Which year saw the launch of Larkfield's {product}?",
            "Tell me the year in which Larkfield's {product} was launched.",
            "Look up when the {product} of Larkfield came out. Give the year.",
            "The {product} of Larkfield: what is its launch year?",
            "Find the year of launch of the Larkfield {product}.",
            "In what year did Larkfield bring the {product} to market?",
        ),
        (
            "Since which year has the Larkfield {product} been on sale?",
            "What was the first year in which one could buy a Larkfield {product}?",
            "From which year on did Larkfield sell the {product}?",
        ),
    ),
}


def draw(random: Random, split: Split) -> Draft:
    product = random.choice([each for each in products() if split_of(each.name) is split])
    kind, phrasings = random.choice(list(KINDS.items()))
    parameters = {"expected": getattr(product, kind)}
    call = search(f"{kind} of the {product.name}")
    verifier = "contains" if kind == "designer" else "numeric"
    return Draft(phrasings, {"product": product.name}, verifier, parameters, (call,))


def search(query: str) -> Call:
    """A look into the library: the best passage alone, since a prompt keeps the end of many."""
    return Call("search_corpus", {"query": query, "top_k": 1})
