"""Every token of a speculating engine is what a float64 oracle takes, one at a time, from the text before it."""

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from constrain import GenerationResult, GrammarSpec, Request, SamplingParams, choice, regex
from tests.engine.speculation import STOPS, TextSource, V, compiled, ids, no_repeat, random_request, run, vocabulary
from tests.engine.test_speculation import PROPOSERS, proposer_of
from tests.sampling.order_oracle import Wanted, distribution, is_drawn, legal_ids, uniform_of

BYTES = vocabulary().token_bytes
WORDS = {
    "aa": (("a", "a"), (" ", "a", "a")),
    "c": (("c",), (" ", "c")),
    "aab": (("a", "ab"), (" ", "a", "ab")),
    "12": (("1", "2"), (" ", "1", "2")),
}


@dataclass
class Language:
    """A constraint, and what of it the oracle knows: which texts begin one of its texts, and which are one."""

    grammar_spec: GrammarSpec | None
    begins: Callable[[str], bool] = field(default=lambda text: True)
    ends: Callable[[str], bool] = field(default=lambda text: True)


NUMBERS = ["[1]", "[12]", "[2121]", "x", "ab ab ab ab"]
LANGUAGES = [
    Language(None),
    Language(choice(NUMBERS), lambda text: any(each.startswith(text) for each in NUMBERS), NUMBERS.__contains__),
    Language(
        regex("[abc ]{2,14}x"),
        lambda text: re.fullmatch("[abc ]{0,14}|[abc ]{2,14}x", text) is not None,
        lambda text: text[-1:] == "x",
    ),
]


def philox(index: int, purpose: int, group: int, seed: int) -> list[int]:
    c = [index & 0xFFFFFFFF, index >> 32, purpose, group]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def gumbel(seed: int, index: int) -> list[float]:
    """The noise of every token: 24 bits of word t % 4 of the counter (index, 256, t // 4)."""
    words = [word for group in range(-(-V // 4)) for word in philox(index, 256, group, seed)]
    return [-math.log(-math.log1p(-((word >> 8) + 0.5) * 2.0**-24)) for word in words[:V]]


def check(request: Request, language: Language, result: GenerationResult, source: TextSource) -> None:
    """Walk along the output and take every token again."""
    params, prompt = request.params, list(request.prompt_ids)
    ending = {*params.stop_token_ids, *(() if params.ignore_eos else STOPS)}
    wanted = Wanted(
        *(params.temperature, params.top_k, params.top_p, params.min_p),
        *(params.repetition_penalty, params.presence_penalty, params.frequency_penalty),
        min_tokens=params.min_tokens,
        ends=tuple(ending),
        bias=dict(params.logit_bias) if params.logit_bias else None,
        allowed=params.allowed_token_ids,  # type: ignore[arg-type]
        bad=tuple(tuple(ids(*form)) for word in params.bad_words for form in WORDS[word]),
    )
    extra = params.extra or {}
    if "logits_processors" in extra:
        wanted.mover = lambda values, output: [
            value - 3 * (output[-1:] == [token]) for token, value in enumerate(values)
        ]
    if extra.get("halve"):
        wanted.keeper = lambda values, _: [value / 2 for value in values]
    for index, token in enumerate(result.token_ids):
        output = list(result.token_ids[:index])
        logits = source.row(prompt + output)[:V].tolist()
        legal, _ = legal_ids(wanted, allowed_by(language, output), output)
        penalised, drawn_from = distribution(wanted, logits, legal, prompt, output)
        where = (index, token, request)
        assert token in legal, where
        if params.temperature < 1e-5:
            assert penalised[token] >= max(penalised) - 1e-5, where
        elif params.draw == "inverse":
            assert is_drawn(token, drawn_from, uniform_of(params.seed or 0, index)), where
        else:
            noisy = [value + noise for value, noise in zip(drawn_from, gumbel(params.seed or 0, index), strict=True)]
            assert noisy[token] >= max(noisy) - 1e-4, where
        if result.logprobs is not None and params.logprobs_mode == "raw_logprobs":
            exact = np.array(logits) - np.logaddexp.reduce(np.array(logits))
            each = result.logprobs[index]
            assert each.token_id == token and each.logprob == pytest.approx(exact[token], abs=1e-5)
            assert [one.token_id for one in each.top] == sorted(range(V), key=lambda t: (-logits[t], t))[
                : len(each.top)
            ]
        if result.logprobs is not None and params.logprobs_mode == "processed_logprobs":
            shown = penalised if params.temperature < 1e-5 else drawn_from
            exact = np.array(shown) - np.logaddexp.reduce(np.array(shown))
            assert result.logprobs[index].logprob == pytest.approx(exact[token], abs=1e-4), where
    check_end(request, ending, result)


def allowed_by(language: Language, output: list[int]) -> set[int]:
    if language.grammar_spec is None:
        return set(range(V))
    text = b"".join(BYTES[token] for token in output).decode()
    found = {token for token in range(V) if BYTES[token] and language.begins(text + BYTES[token].decode())}
    return found | (set(STOPS) if language.ends(text) else set())


def check_end(request: Request, ending: set[int], result: GenerationResult) -> None:
    """The first thing that ends an output is the last thing in it."""
    params = request.params
    text, seen = "", 0
    for count, token in enumerate(result.token_ids, start=1):
        text += BYTES[token].decode()
        stops = count >= params.min_tokens and any(each in text[max(0, seen - len(each) + 1) :] for each in params.stop)
        seen = len(text)
        at_end = token in ending or stops or count == params.max_tokens
        assert at_end == (count == len(result.token_ids)), (count, result)
    if result.finish_reason == "length":
        assert len(result.token_ids) == params.max_tokens
    else:
        assert result.finish_reason == "stop", result.error


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 80))])
def test_tokens_logprobs_and_ends_are_those_of_one_token_at_a_time_in_float64(seed: int) -> None:
    rng = random.Random(1000 + seed)
    requests, languages = [], []
    for index in range(8):
        language = rng.choice(LANGUAGES)
        made = random_request(rng, index, draw=rng.choice(["inverse", "gumbel"]))
        fields = {name: getattr(made.params, name) for name in SamplingParams.__dataclass_fields__}
        if language.grammar_spec is not None:
            fields |= {"stop": (), "stop_token_ids": (), "ignore_eos": False, "allowed_token_ids": None}
            fields |= {"bad_words": (), "logit_bias": {ids("ab")[0]: -2.0, ids("x")[0]: 1.5}}
        languages.append(language)
        requests.append(
            Request(
                prompt_ids=made.prompt_ids,
                constraint=None if language.grammar_spec is None else compiled(language.grammar_spec),
                decode=str,
                params=SamplingParams(**fields),
            )
        )
    source = TextSource()
    name = rng.choice(PROPOSERS)
    results = run(requests, source=source, proposer=proposer_of(name), draft_length=rng.randint(1, 8))
    checked = 0
    for request, language, result in zip(requests, languages, results, strict=True):
        if not result.num_backtracks and result.error is None:  # a dead end bans tokens; how is tested elsewhere
            check(request, language, result, source)
            checked += 1
    assert checked >= 4


def test_the_function_of_a_request_is_the_one_that_the_oracle_thinks_it_is() -> None:
    import torch

    assert no_repeat([5], torch.zeros(8)).tolist() == [0, 0, 0, 0, 0, -3, 0, 0]
