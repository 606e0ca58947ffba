"""Questions about Larkfield Instruments, which only the bundled library knows."""

from random import Random

from podium_training.tasks.draft import Draft
from podium_training.tasks.library import offices, products
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Call, Split

# By kind: what is read off the page, and how the search asks for it.
OF_PRODUCT = {
    "warranty": ("warranty", "warranty of the {name}"),
    "price": ("price", "price of the {name}"),
    "weight": ("weight", "weight of the {name}"),
    "designer": ("designer", "designer of the {name}"),
    "launch": ("launch", "launch of the {name}"),
    "battery": ("battery", "battery of the {name}"),
    "product_kind": ("kind", "kind of the {name}"),
}
OF_OFFICE = {
    "office_head": ("head", "head of the {name} office"),
    "office_task": ("task", "responsibility of the {name} office"),
    "office_size": ("size", "employees of the {name} office"),
}


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice((*OF_PRODUCT, *OF_OFFICE))
    slot, known = ("product", products()) if kind in OF_PRODUCT else ("office", offices())
    subject = random.choice([each for each in known if split_of(each.name) is split])
    field, query = (OF_PRODUCT | OF_OFFICE)[kind]
    stated = getattr(subject, field)
    verifier = "numeric" if isinstance(stated, int) else "contains"
    call = search(query.format(name=subject.name))
    return Draft(kind, {slot: subject.name}, verifier, {"expected": stated}, (call,))


def search(query: str) -> Call:
    """A look into the library: the best passage alone, since a prompt keeps the end of many."""
    return Call("search_corpus", {"query": query, "top_k": 1})
