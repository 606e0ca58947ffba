import features
import instructor
import openai
from instructor.core.exceptions import InstructorRetryException
from pydantic import BaseModel


class Place(BaseModel):
    """A place."""

    city: str
    country: str


def ask(
    mode: instructor.Mode,
    key: str = features.KEY,
    question: object = features.JSON_QUESTION,
    **parameters: object,
) -> Place:
    client = openai.OpenAI(base_url=features.URL, api_key=key, max_retries=0)
    return instructor.from_openai(client, mode=mode).chat.completions.create(
        model="podium",
        messages=[{"role": "user", "content": question}],
        response_model=Place,
        max_retries=0,
        **parameters,
    )


def structured() -> None:
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.JSON):
        features.check(ask(mode).model_dump(), features.PLACE)


def images() -> None:
    picture = instructor.Image.from_base64(features.PICTURE)
    found = ask(instructor.Mode.JSON_SCHEMA, question=[features.IMAGE_QUESTION, picture])
    features.check(found.model_dump(), features.PLACE)


def cancel() -> None:
    question = features.slow_question()
    with features.gives_up(InstructorRetryException):
        ask(instructor.Mode.TOOLS, question=question, timeout=features.IMPATIENCE_S)
    features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(InstructorRetryException) as found:
        ask(instructor.Mode.TOOLS, "pod_wrong_key")
    features.check("401" in str(found[0]) or "API key" in str(found[0]), True)


features.report(structured, images, errors, cancel)
