from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.chat.catalogue import Choice
from gateway.chat.request import dollars
from gateway.errors import MalformedRequest, UnsupportedParameter
from gateway.models import EmbeddingOrder
from gateway.parameters import ApiParameters, honoured, ignored
from gateway.request_model import RequestModel

EMBEDDINGS = ApiParameters(
    (
        honoured("model", words="`tool/NAME` or `tool/NAME/ALIAS` of a tool of the role embedder"),
        honoured("input", words="a text, or a list of at most 2,048; tokens are a 400"),
        honoured("encoding_format", words="float, base64"),
        honoured("dimensions", words="where the model takes it"),
        honoured("podium", words="`policy`, `budget_usd`, `labels`"),
        ignored("user", words="asks for nothing in the answer"),
    )
)


TEXTS_MAX = 2_048
Text = Annotated[str, Field(min_length=1)]
Token = Annotated[int, Field(ge=0)]
# A union tries every kind: each stops at its first fault.
Texts = Annotated[list[Text], Field(min_length=1, fail_fast=True)]
Tokens = Annotated[list[Token], Field(min_length=1, fail_fast=True)]
TokenLists = Annotated[list[Tokens], Field(min_length=1, fail_fast=True)]
NO_TOKENS = (
    "models have tokenizers of their own, so texts are sent and no tokens"
    " (langchain: check_embedding_ctx_length=False)"
)
NO_TOOL = "orchestrators make no vectors; name a tool of the role embedder, like tool/NAME"


class EmbeddingOptions(BaseModel):
    """Options that OpenAI's fields cannot express."""

    model_config = ConfigDict(extra="forbid")

    policy: str = Field("", description="preference policy; overrides the suffix of `model`")
    budget_usd: Decimal | None = Field(
        None, ge=0, max_digits=28, decimal_places=12, description="most money, in US dollars"
    )
    labels: dict[str, str] = Field({}, description="`team` and `agent` narrow those of the key")


class EmbeddingRequest(RequestModel):
    """Texts to turn into vectors."""

    model_config = ConfigDict(extra="allow")

    model: str
    input: Text | Texts | Tokens | TokenLists = Field(description=f"a text, or at most {TEXTS_MAX}")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, le=65_536, description="length of each vector")
    podium: EmbeddingOptions = EmbeddingOptions()

    def order(self, choice: Choice) -> EmbeddingOrder:
        EMBEDDINGS.check(self.model_extra)
        if not choice.tool:
            raise UnsupportedParameter("model", NO_TOOL)
        return EmbeddingOrder(
            tool=choice.tool,
            alias=choice.alias,
            policy=self.podium.policy or choice.policy,
            texts=self._texts(),
            dimensions=self.dimensions,
            budget=dollars(self.podium.budget_usd),
            labels=self.podium.labels,
        )

    def _texts(self) -> tuple[str, ...]:
        given = [self.input] if isinstance(self.input, str) else self.input
        texts = tuple(each for each in given if isinstance(each, str))
        if len(texts) < len(given):
            raise UnsupportedParameter("input", NO_TOKENS)
        if len(texts) > TEXTS_MAX:
            message = f"input has {len(texts)} texts; send at most {TEXTS_MAX} at once"
            raise MalformedRequest(message, param="input")
        return texts
