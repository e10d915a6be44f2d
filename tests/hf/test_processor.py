"""The processor without a model: any order of calls that generate may make, against grammars started afresh."""

import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from constrain import (
    CompiledGrammar,
    ConstrainedLogitsProcessor,
    DeadEndError,
    GrammarCompiler,
    InvalidInputError,
    UnsupportedGrammarError,
    Vocabulary,
    VocabularyError,
    json_schema,
    make_backend,
    regex,
)
from tests.tiny import AB, CLOSE, COLON, EOS, ONE, OPEN, PAD, QUOTE, SPACE, TOKENS, A, B, tiny_vocabulary

WIDTH = 40
VOCABULARY = tiny_vocabulary(WIDTH)


def processor(pattern: str | None = "[ab]{2,5}", **options: Any) -> ConstrainedLogitsProcessor:
    constraint = None if pattern is None else re.compile(pattern)
    return ConstrainedLogitsProcessor(constraint, VOCABULARY, backend="trie", **options)


def legal(masked: torch.Tensor) -> list[list[int]]:
    return [torch.nonzero(row > -torch.inf).flatten().tolist() for row in masked]


def call(masker: ConstrainedLogitsProcessor, rows: list[list[int]]) -> list[list[int]]:
    scores = torch.zeros(len(rows), WIDTH)
    masked = masker(torch.tensor(rows), scores)
    assert not scores.isinf().any(), "generate keeps the scores it passed as raw logits"
    return legal(masked)


def expected(compiled: CompiledGrammar, output: list[int]) -> list[int]:
    grammar = compiled.start()
    assert grammar.accept(output) == len(output) or grammar.is_terminated
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    grammar.fill_bitmask(bitmask, 0)
    return [i for i in range(WIDTH) if int(bitmask[0, i // 32]) >> (i % 32) & 1]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_grow_go_back_change_places_and_multiply_have_the_masks_of_their_text(seed: int) -> None:
    rng = random.Random(seed)
    compiled = make_backend("trie", VOCABULARY).compile(regex("([ab]{2}[12]){1,3}"))
    masker = ConstrainedLogitsProcessor(compiled)
    for _ in range(6):  # runs
        prompts = [[rng.randrange(4, 12) for _ in range(3)] for _ in range(rng.randrange(1, 4))]
        beams = rng.randrange(1, 4)
        if len({tuple(prompt) for prompt in prompts}) < len(prompts):
            continue
        outputs: list[list[int]] = [[] for _ in prompts for _ in range(beams)]
        masker.reset()
        for _ in range(12):  # calls
            rows = [prompts[i // beams] + output for i, output in enumerate(outputs)]
            masks = call(masker, rows)
            assert masks == [expected(compiled, output) for output in outputs]
            length = len(outputs[0])
            kept = rng.randrange(length + 1) if rng.random() < 0.3 else length
            grown: list[list[int]] = []
            for i in range(len(outputs)):
                parent = outputs[i // beams * beams + rng.randrange(beams)][:kept]
                grown.append([*parent, rng.choice(expected(compiled, parent))])
            outputs = grown


def test_a_new_prompt_starts_anew_whatever_the_last_run_said() -> None:
    masker = processor("ab*")
    assert call(masker, [[OPEN]]) == [[A, AB]]
    assert call(masker, [[OPEN, A]]) == [[EOS, B]]
    runs = [
        [[CLOSE, A]],
        [[OPEN]],
        [[OPEN, OPEN], [OPEN, CLOSE]],  # a bigger batch
        [[OPEN, SPACE]],  # one token more, which was not legal
        [[OPEN, A, B, SPACE, OPEN]],  # the old output, and a question behind it
        [[SPACE]],
    ]
    for rows in runs:
        assert call(masker, rows) == [[A, AB]] * len(rows)


def test_a_prompt_that_is_the_last_one_and_its_output_goes_on_unless_reset() -> None:
    masker = processor("ab*")
    call(masker, [[OPEN]])
    assert call(masker, [[OPEN, A]]) == [[EOS, B]]
    masker.reset()
    assert call(masker, [[OPEN, A]]) == [[A, AB]]
    masker.reset(prompt_length=1)
    assert call(masker, [[OPEN, A]]) == [[EOS, B]]
    masker.reset(prompt_length=1)
    with pytest.raises(InvalidInputError, match="breaks the constraint at token 1"):
        call(masker, [[OPEN, B]])
    masker.reset(prompt_length=3)
    with pytest.raises(InvalidInputError, match="prompt_length=3"):
        call(masker, [[OPEN]])


def test_what_cannot_be_told_apart_is_an_error() -> None:
    masker = processor("ab*")
    call(masker, [[OPEN]])
    with pytest.raises(InvalidInputError, match=r"row 0 holds token 3 at output 0.*reset\(\)"):
        call(masker, [[OPEN, B]])  # a longer prompt, or somebody allowed b
    masker.reset()
    call(masker, [[OPEN]])
    with pytest.raises(InvalidInputError, match="continue an earlier run"):
        call(masker, [[OPEN, A], [OPEN, A]])
    masker.reset()
    call(masker, [[OPEN]])
    call(masker, [[CLOSE]])
    with pytest.raises(InvalidInputError, match="two runs take turns"):
        call(masker, [[OPEN, A]])


def test_finished_rows_take_padding_and_wait() -> None:
    masker = processor("a|b+")
    call(masker, [[OPEN], [CLOSE]])
    assert call(masker, [[OPEN, A], [CLOSE, B]]) == [[EOS], [EOS, B]]
    assert call(masker, [[OPEN, A, EOS], [CLOSE, B, B]])[0] == [EOS]
    assert call(masker, [[OPEN, A, EOS, PAD], [CLOSE, B, B, B]]) == [[EOS], [EOS, B]]
    # the second row ends by a criterion of the caller's: padding in the middle of its text
    assert call(masker, [[OPEN, A, EOS, PAD, PAD], [CLOSE, B, B, B, PAD]]) == [[EOS], [EOS]]
    sequences = torch.tensor([[OPEN, A, EOS, PAD, PAD], [CLOSE, B, B, B, PAD]])
    done, cut = masker.results(sequences)
    assert done.unwrap() == "a" and done.token_ids == (A, EOS)
    assert cut.finish_reason == "length" and cut.text == "bbb" and not cut.ok


def test_beams_may_hold_dead_rows() -> None:
    masker = processor("ab")
    call(masker, [[OPEN], [OPEN]])
    # one continuation is legal; beam search fills the other beam with anything, at -inf
    assert call(masker, [[OPEN, A], [OPEN, SPACE]]) == [[B], [EOS]]
    assert call(masker, [[OPEN, A, B], [OPEN, SPACE, SPACE]]) == [[EOS], [EOS]]
    assert call(masker, [[OPEN, SPACE, SPACE, A], [OPEN, SPACE, SPACE, B]]) == [[EOS], [EOS]]


@pytest.fixture
def dead_end() -> CompiledGrammar:
    # c is no token, so behind a nothing is left
    return make_backend("trie", VOCABULARY).compile(regex("ac|bb"))


def test_a_dead_end_names_its_row_stops_or_is_pruned(dead_end: CompiledGrammar) -> None:
    rows = [[OPEN, B], [OPEN, A]]
    for action, mask in (("raise", None), ("stop", [[B], [EOS]]), ("prune", [[B], []])):
        masker = ConstrainedLogitsProcessor(dead_end, on_dead_end=action)  # type: ignore[arg-type]
        call(masker, [[OPEN], [OPEN]])
        if mask is None:
            with pytest.raises(DeadEndError, match="row 1, after 1 output tokens"):
                call(masker, rows)
        else:
            assert call(masker, rows) == mask
    masker = ConstrainedLogitsProcessor(dead_end, on_dead_end="stop")
    call(masker, [[OPEN]])
    call(masker, [[OPEN, A]])
    assert call(masker, [[OPEN, A, EOS]]) == [[EOS]]
    [result] = masker.results(torch.tensor([[OPEN, A, EOS]]))
    assert result.finish_reason == "dead_end" and isinstance(result.error, DeadEndError)


def test_one_constraint_each_and_none() -> None:
    masker = ConstrainedLogitsProcessor(
        constraints=[re.compile("a"), None, ["b", "ab"]], vocabulary=VOCABULARY, backend="trie"
    )
    prompts = [[OPEN, A], [CLOSE, A], [SPACE, A]]
    everything = list(range(WIDTH))
    assert call(masker, prompts) == [[A], everything, [A, B, AB]]
    doubled = [prompt for prompt in prompts for _ in range(2)]
    assert call(masker, doubled) == [[A], [A], everything, everything, [A, B, AB], [A, B, AB]]
    with pytest.raises(InvalidInputError, match="3 constraints for a batch of 4 rows"):
        call(masker, [*prompts, [SPACE, B]])
    with pytest.raises(InvalidInputError, match="3 constraints for a batch of 6 rows"):
        call(masker, [*prompts, *prompts])  # not in the order in which generate repeats prompts
    assert call(processor(None), [[OPEN]]) == [everything]


@pytest.mark.parametrize("width", [12, 31, 40, 64])
def test_scores_may_be_narrower_and_wider_than_the_logits_of_the_vocabulary(width: int) -> None:
    masked = processor("a")(torch.tensor([[OPEN]]), torch.zeros(1, width))
    assert masked.shape == (1, width) and legal(masked) == [[A]]


def test_scores_of_another_model_are_refused() -> None:
    for width in (11, 65):
        with pytest.raises(VocabularyError, match=f"{width} columns"):
            processor()(torch.tensor([[OPEN]]), torch.zeros(1, width))


def test_calls_without_history_are_refused() -> None:
    for ids, scores in ((torch.ones(5), torch.zeros(5, WIDTH)), (torch.ones(1, 5), torch.zeros(1, 5, WIDTH))):
        with pytest.raises(InvalidInputError, match="continuous batching"):
            processor()(ids.long(), scores)


def test_the_prefetch_changes_nothing_and_saves_the_copy_to_the_host() -> None:
    plain, early = processor(), processor()
    rng = random.Random(2)
    for _ in range(20):
        ids = torch.tensor([[rng.randrange(4, 12) for _ in range(2)] for _ in range(2)])
        for _ in range(5):
            scores = torch.zeros(2, WIDTH)
            masked = plain(ids, scores)
            assert torch.equal(early(ids, scores), masked)
            drawn = torch.tensor([[rng.choice(row)] for row in legal(masked)])
            ids = torch.cat([ids, drawn], dim=1)
            if rng.random() < 0.8:
                assert not early.prefetch(ids, None).any()
            if rng.random() < 0.2:
                ids = ids.clone()  # equal, but another tensor
            if rng.random() < 0.2:
                ids = ids[:, :-1]  # a draft that was refused
        assert [r.text for r in plain.results(ids)] == [r.text for r in early.results(ids)]


def test_results_wait_for_the_prefetch(monkeypatch: pytest.MonkeyPatch) -> None:
    masker = processor("ab*")
    ids = torch.tensor([[OPEN]])
    masker(ids, torch.zeros(1, WIDTH))
    fill = masker._fill
    monkeypatch.setattr(masker, "_fill", lambda *arguments: time.sleep(0.05) or fill(*arguments))
    ids = torch.tensor([[OPEN, A]])
    masker.prefetch(ids, None)
    [result] = masker.results(ids)
    assert result.text == "a" and result.finish_reason == "length"


def test_the_prefetch_does_nothing_where_rows_are_unknown() -> None:
    masker = processor()
    assert masker.prefetch(torch.tensor([[OPEN]]), None).tolist() == [False]
    call(masker, [[OPEN], [OPEN]])
    assert masker.prefetch(torch.tensor([[OPEN, A]] * 4), None).tolist() == [False] * 4
    assert call(masker, [[OPEN, A], [OPEN, B]]) == [[A, B, AB]] * 2


def test_an_error_on_the_thread_is_raised_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    masker = processor()
    ids = torch.tensor([[OPEN]])
    masker(ids, torch.zeros(1, WIDTH))
    ids = torch.tensor([[OPEN, B]])
    monkeypatch.setattr(masker, "_fill", lambda *_: 1 / 0)
    masker.prefetch(ids, None)
    with pytest.raises(ZeroDivisionError):
        masker(ids, torch.zeros(1, WIDTH))


def test_sequences_of_somebody_else_are_not_read() -> None:
    masker = processor()
    with pytest.raises(InvalidInputError, match="nothing was generated"):
        masker.results(torch.tensor([[OPEN, A]]))
    call(masker, [[OPEN]])
    with pytest.raises(InvalidInputError, match="do not begin with the prompts"):
        masker.results(torch.tensor([[CLOSE, A]]))
    [wrong] = masker.results(torch.tensor([[OPEN, CLOSE]]))
    assert wrong.finish_reason == "error" and "token 6" in str(wrong.error)


def test_what_is_ignored_is_not_asked_of_a_value() -> None:
    spec = json_schema({"patternProperties": {"(?=a)": {"type": "null"}}, "type": "object"}, unsupported="ignore")
    written = [OPEN, QUOTE, A, QUOTE, COLON, ONE, CLOSE, EOS]
    backend = make_backend("llguidance", VOCABULARY)
    for constraint in (spec, backend.compile(spec)):
        masker = ConstrainedLogitsProcessor(constraint, VOCABULARY, backend=backend)
        call(masker, [[OPEN]])
        assert [result.unwrap() for result in masker.results(torch.tensor([[OPEN, *written]]))] == [{"a": 1}]


def test_compiling_starts_at_once_and_is_waited_for_at_the_first_call() -> None:
    backend = make_backend("trie", VOCABULARY)
    with GrammarCompiler(backend) as compiler, ThreadPoolExecutor(1):
        shared = ConstrainedLogitsProcessor(re.compile("a"), compiler=compiler)
        assert call(shared, [[OPEN]]) == [[A]]
        compiler.compile(regex("b"))  # still open
    broken = ConstrainedLogitsProcessor({"not": {"type": "null"}}, VOCABULARY, backend="trie")
    for _ in range(2):
        with pytest.raises(UnsupportedGrammarError):
            call(broken, [[OPEN]])


def test_what_the_constructor_refuses() -> None:
    other = Vocabulary(TOKENS, stop_token_ids=[EOS, PAD])
    compiled = make_backend("trie", other).compile(regex("a"))
    with pytest.raises(InvalidInputError, match="vocabulary="):
        ConstrainedLogitsProcessor(re.compile("a"))
    with pytest.raises(VocabularyError, match="another vocabulary"):
        ConstrainedLogitsProcessor(compiled, VOCABULARY)
    with pytest.raises(VocabularyError, match="another vocabulary"):
        ConstrainedLogitsProcessor(re.compile("a"), VOCABULARY, backend=make_backend("trie", other))
    with pytest.raises(InvalidInputError, match="not both"):
        ConstrainedLogitsProcessor(re.compile("a"), VOCABULARY, constraints=[None])
    with pytest.raises(InvalidInputError, match="on_dead_end"):
        ConstrainedLogitsProcessor(None, VOCABULARY, on_dead_end="ignore")  # type: ignore[arg-type]
