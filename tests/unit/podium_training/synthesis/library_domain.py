"""A small library as a model would propose it, step by step."""

from typing import Any

from podium_training.synthesis.domain import Domain

TABLES: dict[str, Any] = {
    "tables": [
        {
            "name": "members",
            "description": "People who borrow.",
            "columns": [
                {
                    "name": "name",
                    "type": "text",
                    "description": "Full name.",
                    "choices": [],
                    "references": "",
                }
            ],
        },
        {
            "name": "loans",
            "description": "Books lent.",
            "columns": [
                {
                    "name": "member",
                    "type": "text",
                    "description": "Who has it.",
                    "choices": [],
                    "references": "members",
                },
                {
                    "name": "title",
                    "type": "text",
                    "description": "The book.",
                    "choices": [],
                    "references": "",
                },
                {
                    "name": "status",
                    "type": "text",
                    "description": "Where it is.",
                    "choices": ["lent", "returned"],
                    "references": "",
                },
                {
                    "name": "days",
                    "type": "integer",
                    "description": "Days lent.",
                    "choices": [],
                    "references": "",
                },
            ],
        },
    ]
}
MEMBERS = [
    {"id": f"m{n}", "name": name} for n, name in enumerate(("Ada Reed", "Bo Lind", "Cy Ott"))
]
LOANS = [
    {"id": f"l{n}", "member": f"m{n}", "title": title, "status": "lent", "days": 10 + n}
    for n, title in enumerate(("Emma", "Dune", "Ulysses"))
]
FIND = {
    "name": "find_loans",
    "description": "Loans of a member by name.",
    "parameters": [{"name": "who", "type": "text", "description": "Full name."}],
    "statement": "SELECT l.id, l.title, l.status, l.days FROM loans l"
    " JOIN members m ON m.id = l.member WHERE m.name = :who",
}
RETURN = {
    "name": "return_book",
    "description": "Takes a lent book back.",
    "parameters": [{"name": "loan", "type": "text", "description": "Id of the loan."}],
    "statement": "UPDATE loans SET status = 'returned' WHERE id = :loan AND status = 'lent'",
}


def make_domain() -> Domain:
    return Domain.model_validate(
        {
            "subject": "A city library",
            "tables": TABLES,
            "entries": {"members": MEMBERS, "loans": LOANS},
            "tools": [FIND, RETURN],
        }
    )


def make_draft(**changes: Any) -> dict[str, Any]:
    """Ada gives Emma back and wants to know how long she had it."""
    draft = {
        "instruction": "I am Ada Reed. Take Emma back and tell me how many days I had it.",
        "calls": [
            {"tool": "find_loans", "arguments": {"who": "Ada Reed"}},
            {"tool": "return_book", "arguments": {"loan": "l0"}},
        ],
        "say": ["10"],
    }
    return draft | changes
