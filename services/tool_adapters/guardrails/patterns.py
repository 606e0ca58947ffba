"""Patterns of credentials, personal data and denied words, in RE2: a text is read once.

Forms of credentials are those of detect-secrets; what has check digits is verified by stdnum.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import re2

from podium_kit.text import whole_characters
from tool_adapters.guardrails.models import GuardrailFinding, Reading, mark

PATTERN_BYTES_MAX = 64 * 1024 * 1024
COMPILED_MAX = 1024
# No match that holds a space is longer, except for those of denied patterns and private keys.
REACH = 128
PERSONAL_DATA_REACH = 64
# Between the words of a denied phrase.
SPACES_MAX = 4
# Of detect_secrets.plugins: the forms that a provider gives its keys and tokens alone.
PROVIDERS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "basic_auth": "BasicAuthDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "jwt": "JwtTokenDetector",
    "mailchimp": "MailchimpDetector",
    "openai": "OpenAIDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
# Our own keys, and forms that are newer than the library's.
OTHER_FORMS = (
    r"\bpod_[0-9a-f]{16}_\S+",
    r"\bsk-[\w-]{16,}",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\bhf_[0-9A-Za-z]{34,}",
    r"\bnpm_[0-9A-Za-z]{36}",
    r"\bgithub_pat_[0-9A-Za-z_]{22,}",
)
PRIVATE_KEY = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
PRIVATE_KEYS = (
    rf"{PRIVATE_KEY}[A-Z ]{{0,10}}-----(?:[^-]|-[^-])*"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)?"
)


@dataclass(frozen=True)
class Place:
    """A place that was looked at: from `begin` to `end` it holds what was sought, which is nothing
    where they are equal. The search continues at `next`."""

    begin: int
    end: int
    next: int


@dataclass(frozen=True)
class Finder:
    """Finds places in a text, from a start on.

    `verified` returns the length of what a match begins with for certain, 0 for nothing;
    `reach` is the length that no match with a space exceeds, None where there is no limit; and
    `opening` the beginning of what may be longer still.
    """

    pattern: Any
    verified: Callable[[str], int] = len
    reach: int | None = REACH
    opening: Any | None = None

    def places(self, text: str, start: int = 0) -> Iterator[Place]:
        for found in self.pattern.finditer(text, start):
            begin, end = found.span()
            yield Place(begin, begin + self.verified(found[0]), end)


def redacted(text: str, finder: Finder) -> tuple[str, int]:
    """The text with a mark for each place, and their number."""
    shown, end, count = list[str](), 0, 0
    for place in finder.places(text):
        if place.end > place.begin:
            shown += [text[end : place.begin], mark(place.end - place.begin)]
            end, count = place.end, count + 1
    return "".join([*shown, text[end:]]), count


@dataclass(frozen=True)
class PatternCheck:
    """Finds each kind of place; the names of kinds are shown, and what was found is not."""

    finders: tuple[tuple[str, Finder], ...]

    @property
    def streams(self) -> bool:
        return all(finder.reach is not None for _, finder in self.finders)

    def find(self, reading: Reading) -> GuardrailFinding | None:
        texts, counts = list(map(whole_characters, reading.texts)), dict[str, int]()
        for kind, finder in self.finders:
            for place, text in enumerate(texts):
                texts[place], count = redacted(text, finder)
                if count:
                    counts[kind] = counts.get(kind, 0) + count
        if not counts:
            return None
        return GuardrailFinding(
            ", ".join(f"{count} {kind}" for kind, count in counts.items()), tuple(texts)
        )


@cache
def secret_finder() -> Finder:
    forms = [PRIVATE_KEYS, *OTHER_FORMS]
    for module, name in PROVIDERS.items():
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        forms += [_in_re2(pattern) for pattern in detector.denylist]
    pattern = _compiled("|".join(f"(?:{form})" for form in forms))
    return Finder(pattern, opening=_compiled(PRIVATE_KEY))


def _in_re2(pattern: re.Pattern[str]) -> str:
    """RE2 looks neither ahead nor behind, and repeats 1000 times at most."""
    form = pattern.pattern.replace(r"(?!\w)", r"\b").replace("{50,1024}", "{50,}")
    return f"(?i:{form})" if pattern.flags & re.IGNORECASE else form


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # The whole of a token, where a form is satisfied with its beginning.
    options.longest_match = True
    return re2.compile(pattern, options)


def _valid_iban(text: str) -> int:
    """The length of the IBAN with which a text begins: a word that follows may look like a part."""
    from stdnum import iban

    while text and not iban.is_valid(text):
        text = text.rpartition(" ")[0]
    return len(text)


def _valid_card(text: str) -> int:
    from stdnum import luhn

    digits = "".join(filter(str.isdigit, text))
    return len(text) if luhn.is_valid(digits) else 0


def _valid_phone(text: str) -> int:
    """International numbers have 8 to 15 digits (ITU-T E.164)."""
    return len(text) if 8 <= sum(map(str.isdigit, text)) <= 15 else 0


def _valid_ssn(text: str) -> int:
    from stdnum.us import ssn

    return len(text) if ssn.is_valid(text) else 0


EMAIL = r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"
PHONE = r"\+[0-9][0-9 ().-]{6,22}[0-9]\b|(?:\([0-9]{3}\) ?|\b[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}\b"
CARD = (
    r"\b(?:3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}"
    r"|[2-6][0-9]{3}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{1,4}(?:[ -]?[0-9]{1,3})?)\b"
)
IBAN = r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"
SSN = r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b"
# In this order: digits of an IBAN or a card look like a telephone number.
PERSONAL_DATA: dict[str, tuple[str, Callable[[str], int]]] = {
    "email": (EMAIL, len),
    "iban": (IBAN, _valid_iban),
    "card": (CARD, _valid_card),
    "us_ssn": (SSN, _valid_ssn),
    "phone": (PHONE, _valid_phone),
}


@lru_cache(maxsize=64)
def personal_data_check(kinds: frozenset[str]) -> PatternCheck:
    """No kinds: all of them."""
    return PatternCheck(
        tuple(
            (kind, Finder(_compiled(pattern), verified, PERSONAL_DATA_REACH))
            for kind, (pattern, verified) in PERSONAL_DATA.items()
            if not kinds or kind in kinds
        )
    )


@cache
def secret_check() -> PatternCheck:
    return PatternCheck((("credential", secret_finder()),))


@lru_cache(maxsize=COMPILED_MAX)
def deny_check(words: Sequence[str], patterns: Sequence[str]) -> PatternCheck:
    finders: list[tuple[str, Finder]] = []
    if words:
        pattern = _compiled("|".join(map(_word, words)))
        reach = max(REACH, *(len(word) * SPACES_MAX for word in words))
        finders.append(("denied word", Finder(pattern, reach=reach)))
    if patterns:
        together = _compiled("|".join(f"(?:{each})" for each in patterns))
        finders.append(("denied pattern", Finder(together, reach=None)))
    return PatternCheck(tuple(finders))


def _word(word: str) -> str:
    """Whole words; RE2 has a boundary beside ASCII alone."""
    word = word.strip()
    before, after = (r"\b" if _bounded(each) else "" for each in (word[0], word[-1]))
    parts = rf"\s{{1,{SPACES_MAX}}}".join(map(re2.escape, word.split()))
    return f"(?i:{before}{parts}{after})"


def _bounded(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
