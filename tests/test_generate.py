"""The one call: prompts in all their forms, constraints for all or each, and where errors go."""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import BaseModel, field_validator

from constrain import (
    InvalidGrammarError,
    InvalidInputError,
    InvalidPromptError,
    InvalidSchemaError,
    InvalidValueError,
    LogitsSource,
    SequenceView,
    SourceError,
    UnsatisfiableGrammarError,
    UnsupportedGrammarError,
    Vocabulary,
    VocabularyError,
    choice,
    generate,
    json_schema,
    regex,
)
from constrain.inputs import cached_backend, prepare
from tests.tiny import AB, EOS, ONE, TWO, A, B, ScriptedSource, tiny_vocabulary

# Every printable ASCII character, so that JSON can be written.
ASCII = Vocabulary([*(bytes([byte]) for byte in range(32, 127)), b"\n", b""], stop_token_ids=[96])


def writes(*texts: str) -> Any:
    """A function source that writes the text of the same index as the prompt's first token."""

    def logits(batch: list[list[int]]) -> torch.Tensor:
        rows = torch.zeros(len(batch), ASCII.logits_width)
        for row, ids in zip(rows, batch, strict=True):
            wanted = [*ASCII.encode(texts[ids[0]]), 96]
            row[wanted[min(len(ids) - 1, len(wanted) - 1)]] = 9.0
        return rows

    return logits


def test_one_prompt_gives_one_result_and_many_give_a_list() -> None:
    source = ScriptedSource({A: [ONE], B: [TWO, AB]})
    one = generate(source, [A], vocabulary=tiny_vocabulary(), temperature=0.0)
    assert (one.text, one.request_id) == ("1", 0)
    many = generate(source, [[B], [A], [B]], vocabulary=tiny_vocabulary(), temperature=0.0)
    assert [result.text for result in many] == ["2ab", "1", "2ab"]
    assert [result.request_id for result in many] == [0, 1, 2]
    assert generate(source, "a", vocabulary=tiny_vocabulary(), temperature=0.0).text == "1"
    assert [r.text for r in generate(source, ["b", [A]], vocabulary=tiny_vocabulary(), temperature=0.0)] == ["2ab", "1"]


def test_a_pydantic_model_comes_back_typed() -> None:
    class User(BaseModel):
        name: str
        role: Literal["admin", "guest"]

    written = '{"name": "Ann", "role": "guest"}'
    result = generate(writes(written), [0], User, vocabulary=ASCII, temperature=0.0)
    assert result.value == User(name="Ann", role="guest")
    assert result.backend == "llguidance"


def test_constraints_for_each_prompt_and_none_for_free_text() -> None:
    texts = ["[1, 2]", "no", "free text", "x42"]
    constraints = [list[int], ["yes", "no"], None, re.compile(r"x\d+", re.ASCII)]
    results = generate(
        writes(*texts),
        [[0], [1], [2], [3]],
        constraints=constraints,
        vocabulary=ASCII,
        temperature=0.0,
        max_batch_size=2,
    )
    assert [result.value for result in results] == [[1, 2], "no", "free text", "x42"]
    assert [result.backend is None for result in results] == [False, False, True, False]


def test_a_bad_constraint_or_prompt_among_many_costs_only_its_own() -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"$ref": "#/nowhere"}}
    refused: dict[str, Any] = {"dependencies": {"a": ["b"]}}  # a keyword of older drafts
    constraints = [choice(["yes"]), schema, None, refused, None]
    prompts: list[Any] = [[0], [0], [], [0], [0]]
    results = generate(writes("yes"), prompts, constraints=constraints, vocabulary=ASCII, temperature=0.0)
    assert [result.finish_reason for result in results] == ["stop", "error", "error", "error", "stop"]
    errors = [result.error for result in results]
    assert isinstance(errors[1], InvalidSchemaError) and errors[1].pointer == "/items/$ref"
    assert isinstance(errors[2], InvalidPromptError)
    assert isinstance(errors[3], UnsupportedGrammarError) and "dependencies" in str(errors[3])


@pytest.mark.parametrize(
    ("constraint", "error", "message"),
    [
        ("{not json", InvalidGrammarError, "JSON"),
        ({"type": "strin"}, InvalidSchemaError, "/type"),
        ({"$ref": "#/$defs/x"}, InvalidSchemaError, "ref"),
        ({"not": {}}, UnsatisfiableGrammarError, "unsatisfiable"),
        ({"dependencies": {"a": ["b"]}}, UnsupportedGrammarError, "/dependencies"),
        ([], InvalidGrammarError, "empty"),
        (lambda *items: None, InvalidGrammarError, "items"),
        (object(), InvalidGrammarError, "object"),
    ],
)
def test_what_is_wrong_with_the_only_prompt_is_raised_before_any_token(
    constraint: Any, error: type[Exception], message: str
) -> None:
    calls = []

    def source(batch: list[list[int]]) -> torch.Tensor:
        calls.append(batch)
        return torch.zeros(len(batch), ASCII.logits_width)

    with pytest.raises(error, match=re.escape(message)):
        generate(source, [0], constraint, vocabulary=ASCII)
    assert calls == []


def test_a_regex_that_does_not_parse_names_the_position() -> None:
    with pytest.raises(InvalidGrammarError) as caught:
        regex("ab(c")
    assert caught.value.position == 2


def test_a_rule_that_only_the_type_knows_is_an_error_and_no_value() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    result = generate(writes('{"n": 3}'), [0], Even, vocabulary=ASCII, temperature=0.0)
    assert result.finish_reason == "error" and result.value is None
    assert isinstance(result.error, InvalidValueError) and "must be even" in str(result.error)


def test_a_source_of_the_wrong_width_or_kind_is_named() -> None:
    result = generate(lambda batch: torch.zeros(len(batch), 5), [0], vocabulary=ASCII)
    assert isinstance(result.error, SourceError) and "(1, 5)" in str(result.error)
    with pytest.raises(InvalidInputError, match="vocabulary="):
        generate(writes(), [0])
    with pytest.raises(InvalidInputError, match="str"):
        generate("gpt2", [0], vocabulary=ASCII)
    with pytest.raises(VocabularyError):
        generate(ScriptedSource({}), [0], vocabulary=ASCII)


def test_every_kind_of_bad_prompt_among_many_costs_only_its_own() -> None:
    class Explodes:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            raise RuntimeError("boom")

    prompts: list[Any] = [
        [0],
        None,
        5,
        b"x",
        "\ud800",
        "é",
        [False],
        [[0]],
        np.array([0]),
        torch.tensor([0]),
        [np.int64(0)],
    ]
    results = generate(writes("yes"), prompts, ["yes"], vocabulary=ASCII, temperature=0.0)
    kinds = [type(result.error) for result in results]
    bad = InvalidPromptError
    assert kinds == [type(None), bad, bad, bad, bad, VocabularyError, bad, bad, *[type(None)] * 3]
    assert [result.value for result in results if result.ok] == ["yes"] * 4
    results = generate(writes("yes"), [[0], [0]], constraints=(each for each in [Explodes, None]), vocabulary=ASCII)
    assert isinstance(results[0].error, InvalidGrammarError) and "boom" in str(results[0].error)


def test_what_a_model_needs_is_made_once_and_goes_with_it(smollm2: tuple[Any, Any]) -> None:
    import copy
    import gc
    import weakref

    model, _ = smollm2
    twin = copy.copy(model)
    first = prepare(twin, None, None)
    assert prepare(twin, None, None)[1:] == first[1:]
    backend = weakref.ref(cached_backend("trie", first[1]))
    assert cached_backend("trie", first[1]) is backend()
    vocabulary = weakref.ref(first[1])
    del first, twin
    gc.collect()
    assert vocabulary() is None and backend() is None


@pytest.mark.parametrize("prompt", [5, None, b"bytes", [], [[0], "\x00"], [{"role": "user", "content": "hi"}]])
def test_prompts_that_are_none_are_refused(prompt: Any) -> None:
    with pytest.raises((InvalidPromptError, VocabularyError)):
        for result in generate(writes("a"), prompt, vocabulary=ASCII):
            result.unwrap()


def test_constraints_must_match_the_prompts() -> None:
    for arguments in (
        {"prompt": [0], "constraints": [None]},
        {"prompt": [[0], [0]], "constraints": [None]},
        {"prompt": [[0]], "constraints": [None], "constraint": int},
    ):
        with pytest.raises(InvalidInputError, match="constraints="):
            generate(writes("a"), vocabulary=ASCII, **arguments)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        generate(writes("a"), [0], vocabulary=ASCII, temprature=0.0)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("vocabulary", value) for value in (5, [b"a"], "gpt2", Vocabulary)),
        *(("constraints", value) for value in (5, {"type": "object"}, "ab", True)),
        *(("max_batch_size", value) for value in (0, -3, None, 2.0, True)),
        *(("backend", value) for value in (None, ["trie"], 5)),
    ],
)
def test_options_of_the_wrong_kind_are_named(name: str, value: Any) -> None:
    options: dict[str, Any] = {"vocabulary": ASCII, name: value}
    with pytest.raises(InvalidInputError, match=name):
        generate(writes("a"), [[0], [1]], **options)


def test_a_deadline_ends_a_request_with_what_it_has() -> None:
    import time

    class Sleeps(LogitsSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            time.sleep(0.05)
            return torch.zeros(len(views), ASCII.logits_width)

    result = generate(Sleeps(), [0], vocabulary=ASCII, temperature=0.0, timeout_s=0.12, max_tokens=100)
    assert result.finish_reason == "deadline" and 1 <= result.num_output_tokens <= 3


@pytest.mark.model
def test_chat_messages_and_text_on_the_real_model(smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    messages = [{"role": "user", "content": "Is the sky blue? Answer yes or no."}]
    result = generate(model, messages, ["yes", "no"], tokenizer=tokenizer, temperature=0.0)
    assert result.value in ("yes", "no") and result.num_prompt_tokens > 20
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    result = generate(model, "A JSON object with a number n: ", schema, temperature=0.0, max_tokens=30)
    assert result.value == json.loads(result.text) and set(result.value) == {"n"}
    assert result.token_ids[-1] == tokenizer.eos_token_id != EOS
    with pytest.raises(InvalidPromptError, match="template refused"):
        generate(model, [{"content": "no role"}], tokenizer=tokenizer)
    with pytest.raises(InvalidPromptError, match="context"):
        generate(model, [5] * 9000, tokenizer=tokenizer)


def test_the_result_names_the_backend_and_what_it_was_told_to_ignore() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    spec = json_schema(schema, unsupported="ignore")
    result = generate(writes("[1,1]"), [0], spec, vocabulary=ASCII, backend="llguidance", temperature=0.0)
    assert result.unwrap() == [1, 1] and result.backend == "llguidance"
    assert result.backend_reason is not None and "/uniqueItems" in result.backend_reason
    plain = generate(writes("[1,1]"), [0], {"type": "array"}, vocabulary=ASCII, temperature=0.0)
    assert plain.backend_reason is not None and "first choice" in plain.backend_reason
