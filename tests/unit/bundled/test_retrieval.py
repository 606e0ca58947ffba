import pytest

from unit.bundled.library import library

TOP = 3
# As people ask, not in the words of the documents.
QUESTIONS = {
    "What is the capital of Indonesia?": "countries/indonesia",
    "What are the largest cities of Germany?": "countries/germany",
    "What currency do people use in Japan?": "countries/japan",
    "How many people live in Brazil?": "countries/brazil",
    "How long may I work from home each week?": "handbook/remote-work",
    "Can I carry over unused vacation days?": "handbook/annual-leave",
    "When do I need a doctor's note?": "handbook/sick-leave",
    "How many weeks of leave do new parents get?": "handbook/parental-leave",
    "When will my laptop be replaced?": "handbook/equipment",
    "Who has to approve an expense above the limit?": "handbook/expenses",
    "Is there a fee for returning a product?": "handbook/returns",
    "How soon is a warranty claim answered?": "handbook/warranty-claims",
    "How often are reference instruments calibrated?": "handbook/calibration",
    "May visitors walk around alone?": "handbook/security",
    "What budget do I have for training?": "handbook/training",
    "Should I take the train or fly for a journey?": "handbook/travel",
    "Who designed the Kestrel-9?": "products/kestrel-9",
    "How much does the torque gauge cost?": "products/gimlet",
    "How long does the battery of the Tern last?": "products/tern",
    "How heavy is the ground radar?": "products/quarry",
    "When was the humidity logger launched?": "products/willow",
    "Who is the head of the Turku office?": "offices/turku",
    "Which office is responsible for software?": "offices/coimbra",
    "What is Priya Petrov's extension?": "people/priya-petrov",
}


@pytest.mark.parametrize(("question", "document_id"), QUESTIONS.items())
def test_the_known_document_is_among_the_first_three(question: str, document_id: str) -> None:
    hits = library().search(question, TOP)
    assert document_id in [hit.passage.document_id for hit in hits]
