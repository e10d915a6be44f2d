"""The engine on a scripted source: exact tokens, and one request's failure that touches nobody else."""

import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch

from constrain import (
    BackendError,
    ClosedError,
    CompiledGrammar,
    DeadEndError,
    Engine,
    GenerationResult,
    InvalidInputError,
    InvalidPromptError,
    InvalidValueError,
    NonFiniteLogitsError,
    Request,
    SamplingParams,
    SequenceView,
    SourceError,
    UnsupportedGrammarError,
    Vocabulary,
    VocabularyError,
    choice,
    ebnf,
    json_object,
    lark,
    regex,
)
from constrain.backends import make_backend
from constrain.backends.trie import TrieBackend
from constrain.engine.masks import MaskFiller
from constrain.grammar_spec import GrammarSpec
from tests.tiny import AB, CLOSE, COLON, EOS, ONE, OPEN, QUOTE, SPACE, TWO, A, B, ScriptedSource, tiny_vocabulary

GREEDY = SamplingParams(temperature=0.0, max_tokens=20)


def request(prompt: int, constraint: GrammarSpec | None = None, params: SamplingParams = GREEDY) -> Request:
    return Request(prompt_ids=[prompt], constraint=constraint, params=params)


def run(source: ScriptedSource, requests: Sequence[Request], **options: object) -> list[GenerationResult]:
    with Engine(source, tiny_vocabulary(), backend="trie", **options) as engine:  # type: ignore[arg-type]
        for each in requests:
            engine.add(each)
        return engine.run()


def test_free_text_follows_the_logits_to_the_stop_token() -> None:
    [result] = run(ScriptedSource({A: [AB, SPACE, ONE]}), [request(A)])
    assert result.token_ids == (AB, SPACE, ONE, EOS)
    assert (result.text, result.value, result.finish_reason) == ("ab 1", "ab 1", "stop")
    assert result.backend is None and result.ok


def test_a_constraint_overrules_the_logits_and_the_rest_of_the_script_stands() -> None:
    [result] = run(ScriptedSource({A: [ONE, TWO, B]}), [request(A, regex("[ab]2(a|b)"))])
    # ONE is illegal at first: of the legal tokens, the lowest id has the highest scripted logit.
    assert result.token_ids == (A, TWO, B, EOS)
    assert result.backend == "trie"


def test_ids_past_the_vocabulary_are_never_drawn_even_from_free_rows() -> None:
    class Wide(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            logits = super().row(token_ids)
            logits[30] = 50.0
            return logits

    [result] = run(Wide({A: [B, B]}), [request(A)])
    assert result.token_ids == (B, B, EOS)


def test_free_rows_cost_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskFiller, "_fill", lambda *_: pytest.fail("a mask was filled"))
    results = run(ScriptedSource({A: [AB], B: [ONE]}), [request(A), request(B)])
    assert [result.token_ids for result in results] == [(AB, EOS), (ONE, EOS)]


def test_masking_leaves_the_logits_of_the_source_alone() -> None:
    class Keeping(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            self.given = super().__call__(views)
            return self.given

    source = Keeping({A: [AB]})
    run(source, [request(A, regex("[12]"))])
    assert source.given.isfinite().all()


def test_a_batch_larger_than_the_source_takes_is_refused_at_the_door() -> None:
    class Narrow(ScriptedSource):
        max_rows = 2

    run(Narrow({A: []}), [request(A)], max_batch_size=2)
    with pytest.raises(InvalidInputError, match="at most 2 rows"):
        run(Narrow({A: []}), [request(A)], max_batch_size=3)


def test_max_tokens_ends_with_length_and_without_a_value() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=2)
    [result] = run(ScriptedSource({A: [B] * 9}), [request(A, params=params)])
    assert (result.token_ids, result.finish_reason, result.value) == ((B, B), "length", None)
    with pytest.raises(Exception, match="length"):
        result.unwrap()


def test_each_failure_of_a_mixed_batch_costs_only_its_own_request() -> None:
    class Faulty(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            logits = super().row(token_ids)
            if token_ids[0] == QUOTE and len(token_ids) == 2:
                logits[A] = float("nan")
            if token_ids[0] == COLON:
                logits[B] = float("inf")
            return logits

    source = Faulty({A: [A, B], B: [ONE], OPEN: [A], QUOTE: [A, A], COLON: [A], SPACE: [B, A, B]})
    results = run(
        source,
        [
            request(A, regex("[ab]+")),
            request(B, lark('start: "1"')),  # the trie backend knows no Lark
            request(OPEN, regex("aé")),  # no token writes é
            request(QUOTE),  # NaN at the second token
            request(COLON),  # +inf at the first
            request(SPACE, choice(["bab", "1"])),
        ],
    )
    assert [result.finish_reason for result in results] == ["stop", "error", "dead_end", "error", "error", "stop"]
    good, refused, dead, nan, inf, last = results
    assert (good.token_ids, last.token_ids) == ((A, B, EOS), (B, A, B, EOS))
    assert isinstance(refused.error, UnsupportedGrammarError) and refused.token_ids == ()
    assert isinstance(dead.error, DeadEndError) and dead.token_ids == (A,)
    assert isinstance(nan.error, NonFiniteLogitsError) and nan.token_ids == (A,)
    assert isinstance(inf.error, NonFiniteLogitsError) and inf.token_ids == ()
    assert len(source.released) == 5  # every request that had a place has left it


def test_nan_under_the_mask_harms_nobody() -> None:
    class Poisoned(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            logits = super().row(token_ids)
            logits[[ONE, 39]] = float("nan")
            return logits

    [result] = run(Poisoned({A: [B]}), [request(A, regex("[ab]"))])
    assert result.text == "b"


def test_all_legal_tokens_at_minus_infinity_is_a_dead_end() -> None:
    class Refusing(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            logits = super().row(token_ids)
            logits[[A, B, AB]] = float("-inf")
            return logits

    [result] = run(Refusing({A: [A]}), [request(A, regex("[ab]+"))])
    assert (result.finish_reason, result.token_ids) == ("dead_end", ())


def test_a_source_that_fails_on_one_request_fails_that_request_only() -> None:
    class Picky(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            if any(view.token_ids[0] == B for view in views):
                raise RuntimeError("cannot do b")
            return super().__call__(views)

    good, bad = run(Picky({A: [ONE, TWO], B: [A]}), [request(A), request(B)])
    assert good.token_ids == (ONE, TWO, EOS)
    assert isinstance(bad.error, SourceError) and "cannot do b" in str(bad.error)


@pytest.mark.parametrize(
    "output", [torch.zeros(1, 39), torch.zeros(2, 40), torch.zeros(40), torch.zeros(1, 40, dtype=torch.int64), "text"]
)
def test_a_source_that_returns_the_wrong_thing_is_named(output: object) -> None:
    class Wrong(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            return output  # type: ignore[return-value]

    [result] = run(Wrong({A: []}), [request(A)])
    assert isinstance(result.error, SourceError) and "Wrong returned" in str(result.error)


def test_a_source_may_give_logits_that_carry_gradients() -> None:
    class Trained(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            return torch.stack([torch.nn.Parameter(row) for row in super().__call__(views)]) * 1.0

    class Leaf(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            return torch.nn.Parameter(super().__call__(views))

    params = SamplingParams(temperature=0.0, bad_words=["2"], repetition_penalty=1.1, logprobs=1, prompt_logprobs=1)
    for kind in (Trained, Leaf):
        [result] = run(kind({A: [A, B]}), [request(A, regex("[ab]{2}"), params)])
        assert result.text == "ab"


def test_requests_alone_give_the_tokens_that_they_give_in_a_batch() -> None:
    params = [SamplingParams(temperature=1.5, seed=seed, max_tokens=12, top_k=seed % 5) for seed in range(8)]
    constraints = [None, regex("[ab12]*"), choice(["abab", "ba", "1"]), regex("[ab]{3,9}")]
    requests = [request(A, constraints[i % 4], each) for i, each in enumerate(params)]
    scripts = {A: [AB, B, ONE, A] * 4}
    together = run(ScriptedSource(scripts), requests)
    staggered = run(ScriptedSource(scripts), requests, max_batch_size=3)
    alone = [run(ScriptedSource(scripts), [each])[0] for each in requests]
    assert [r.token_ids for r in together] == [r.token_ids for r in alone] == [r.token_ids for r in staggered]


def test_more_requests_than_places_wait_and_slots_are_used_again() -> None:
    source = ScriptedSource({A: [B, B]})
    results = run(source, [request(A) for _ in range(5)], max_batch_size=2)
    assert [result.token_ids for result in results] == [(B, B, EOS)] * 5
    assert {view.slot for call in source.calls for view in call} == {0, 1}
    assert max(map(len, source.calls)) == 2


def test_a_mask_is_filled_while_the_source_runs() -> None:
    filled = threading.Event()

    class WaitsForTheMask(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            assert filled.wait(10), "the mask was not filled beside the forward pass"
            filled.clear()
            return super().__call__(views)

    vocabulary = tiny_vocabulary()
    compiled = TrieBackend(vocabulary).compile(regex("[ab]{2}"))
    grammar = compiled.start()
    fill = grammar.fill_bitmask

    class Signals(CompiledGrammar):
        grammar_spec, backend_name = compiled.grammar_spec, "signals"
        vocabulary = compiled.vocabulary

        def start(self):  # type: ignore[no-untyped-def]
            def filling(bitmask: torch.Tensor, row: int) -> object:
                state = fill(bitmask, row)
                filled.set()
                return state

            grammar.fill_bitmask = filling  # type: ignore[method-assign,assignment]
            return grammar

    with Engine(WaitsForTheMask({A: [A, B]}), vocabulary, backend="trie") as engine:
        engine.add(Request(prompt_ids=[A], constraint=Signals(), params=GREEDY))
        [result] = engine.run()
    assert result.text == "ab"


def test_a_grammar_that_breaks_ends_its_own_request() -> None:
    vocabulary = tiny_vocabulary()
    compiled = TrieBackend(vocabulary).compile(regex("[ab]+"))

    class Breaks(CompiledGrammar):
        grammar_spec, backend_name = compiled.grammar_spec, "breaks"
        vocabulary = compiled.vocabulary

        def start(self):  # type: ignore[no-untyped-def]
            grammar = compiled.start()

            def fill_bitmask(bitmask: torch.Tensor, row: int) -> object:
                raise RuntimeError("out of fuel")

            grammar.fill_bitmask = fill_bitmask  # type: ignore[method-assign,assignment]
            return grammar

    with Engine(ScriptedSource({A: [A], B: [B]}), vocabulary, backend="trie") as engine:
        engine.add(Request(prompt_ids=[A], constraint=Breaks(), params=GREEDY))
        engine.add(request(B))
        broken, good = engine.run()
    assert isinstance(broken.error, BackendError) and "out of fuel" in str(broken.error)
    assert good.text == "b"


def test_a_decoder_that_refuses_gives_an_error_and_no_value() -> None:
    def decode(text: str) -> object:
        raise InvalidValueError(f"no value in {text!r}")

    each = Request(prompt_ids=[A], constraint=regex("a"), params=GREEDY, decode=decode)
    [result] = run(ScriptedSource({A: [A]}), [each])
    assert (result.finish_reason, result.value, result.text) == ("error", None, "a")
    with pytest.raises(InvalidValueError, match="no value"):
        result.unwrap()


def test_without_a_decoder_the_constraint_reads_and_validates_its_own_text() -> None:
    source = ScriptedSource({A: [OPEN, QUOTE, A, QUOTE, COLON, ONE, CLOSE], B: [ONE]})
    read, text = run(source, [request(A, json_object()), request(B, regex("1"))])
    assert (read.value, text.value) == ({"a": 1}, "1")

    class Lies(CompiledGrammar):
        """Says that it enforces "1", and lets free text through."""

        vocabulary, backend_name = tiny_vocabulary(), "lies"
        grammar_spec = regex("1")

        def start(self):  # type: ignore[no-untyped-def]
            return TrieBackend(self.vocabulary).compile(regex("[ab12]+")).start()

    each = Request(prompt_ids=[A], constraint=Lies(), params=GREEDY)
    [result] = run(ScriptedSource({A: [A]}), [each])
    assert (result.finish_reason, result.value) == ("error", None)
    assert isinstance(result.error, InvalidValueError) and "bug" in str(result.error)


def test_a_decoder_may_cancel_a_request_that_ends_in_the_same_step() -> None:
    with Engine(ScriptedSource({A: [ONE], B: [TWO]}), tiny_vocabulary(), backend="trie") as engine:

        def first_wins(text: str) -> str:
            assert engine.cancel(1)
            return text

        engine.add(Request(prompt_ids=[A], params=GREEDY, decode=first_wins))
        engine.add(request(B))
        first, second = engine.run()
    assert (first.value, first.finish_reason) == ("1", "stop")
    assert (second.finish_reason, second.token_ids) == ("cancelled", (TWO, EOS))


def test_a_grammar_that_cannot_start_ends_its_own_request() -> None:
    class NoStart(CompiledGrammar):
        vocabulary, backend_name, grammar_spec = tiny_vocabulary(), "nostart", regex("a")

        def start(self):  # type: ignore[no-untyped-def]
            raise MemoryError("no room")

    broken, good = run(
        ScriptedSource({A: [A], B: [B]}), [Request(prompt_ids=[A], constraint=NoStart(), params=GREEDY), request(B)]
    )
    assert isinstance(broken.error, BackendError) and "no room" in str(broken.error)
    assert good.text == "b"


def test_a_source_that_cannot_release_costs_no_result() -> None:
    class Keeps(ScriptedSource):
        def release(self, slot: int) -> None:
            raise RuntimeError("kept")

    with pytest.warns(RuntimeWarning, match="Keeps raised when a request ended"):
        results = run(Keeps({A: [ONE], B: [TWO, TWO]}), [request(A), request(B)])
    assert [result.text for result in results] == ["1", "22"]


def test_nobody_can_change_the_tokens_of_a_request() -> None:
    class Meddles(ScriptedSource):
        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            logits = super().__call__(views)
            for view in views:
                with pytest.raises(AttributeError):
                    view.token_ids.append(SPACE)  # type: ignore[attr-defined]
            return logits

    prompt = [A]
    with Engine(Meddles({A: [ONE, TWO]}), tiny_vocabulary(), backend="trie") as engine:
        engine.add(Request(prompt_ids=prompt, params=GREEDY))
        prompt += [B, B]
        [result] = engine.run()
    assert (result.text, result.token_ids, result.num_prompt_tokens) == ("12", (ONE, TWO, EOS), 1)


def test_closing_does_not_wait_for_a_compile() -> None:
    release = threading.Event()

    class Slow(TrieBackend):
        def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
            release.wait(20)
            return super().compile(grammar_spec)

    vocabulary = tiny_vocabulary()
    started = time.perf_counter()
    with Engine(ScriptedSource({A: [A]}), vocabulary, backend=Slow(vocabulary)) as engine:
        engine.add(Request(prompt_ids=[A], constraint=regex("a"), timeout_s=0.1))
        [result] = engine.run()
    waited = time.perf_counter() - started
    release.set()
    assert result.finish_reason == "deadline" and waited < 10


@pytest.mark.parametrize(
    "arguments",
    [
        *({"timeout_s": value} for value in (float("nan"), "5", -1, True, 10**400)),
        *({name: 5} for name in ("params", "decode", "reasoning")),
    ],
)
def test_a_request_checks_itself(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        Request(prompt_ids=[A], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout_s", [1e10, 1e308, float("inf"), 10**300, Fraction(10**20)])
def test_any_time_is_long_enough(timeout_s: Any) -> None:
    [result] = run(
        ScriptedSource({A: [A]}), [Request(prompt_ids=[A], constraint=regex("a"), params=GREEDY, timeout_s=timeout_s)]
    )
    assert result.text == "a" and result.ok


@pytest.mark.parametrize("value", [None, True, 1.0, "4", -1, [3]])
@pytest.mark.parametrize("name", ["max_batch_size", "draft_length", "max_backtracks"])
def test_a_bad_count_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name}="):
        Engine(ScriptedSource({}), tiny_vocabulary(), **{name: value})


@pytest.mark.parametrize("value", [None, 5, "trie+", ["trie"], TrieBackend])
def test_a_bad_backend_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="backend"):
        Engine(ScriptedSource({}), tiny_vocabulary(), backend=value)


def test_what_is_no_source_or_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="LogitsSource"):
        Engine(lambda prefixes: prefixes, tiny_vocabulary())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="Vocabulary"):
        Engine(ScriptedSource({}), [b"a", b"b"])  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 5, "my_module:Processor", b"x"])
def test_processors_that_are_no_list_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="processors="):
        Engine(ScriptedSource({}), tiny_vocabulary(), processors=value)


def test_cancelled_and_overdue_requests_end_alone() -> None:
    with Engine(ScriptedSource({A: [B] * 50, B: [A] * 50}), tiny_vocabulary(), backend="trie") as engine:
        first = engine.add(request(A))
        second = engine.add(Request(prompt_ids=[B], params=GREEDY, timeout_s=0.05))
        third = engine.add(request(A, params=SamplingParams(temperature=0.0, max_tokens=3)))
        assert engine.step() == []
        assert engine.cancel(first) and not engine.cancel(99)
        time.sleep(0.06)
        by_id = {result.request_id: result for result in engine.run()}
    assert (by_id[first].finish_reason, by_id[first].token_ids) == ("cancelled", (B,))
    assert (by_id[second].finish_reason, by_id[second].token_ids) == ("deadline", (A,))
    assert (by_id[third].finish_reason, by_id[third].token_ids) == ("length", (B, B, B))


def test_a_slow_compile_lets_others_overtake_and_respects_its_deadline() -> None:
    release = threading.Event()

    class Slow(TrieBackend):
        def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
            release.wait(10)
            return super().compile(grammar_spec)

    vocabulary = tiny_vocabulary()
    with Engine(ScriptedSource({A: [A], B: [B]}), vocabulary, backend=Slow(vocabulary)) as engine:
        slow = engine.add(Request(prompt_ids=[A], constraint=regex("a"), params=GREEDY, timeout_s=0.2))
        fast = engine.add(request(B))
        by_id = {result.request_id: result for result in engine.run()}
        release.set()
    assert by_id[fast].text == "b"
    assert by_id[slow].finish_reason == "deadline"


@pytest.mark.parametrize(
    ("prompt_ids", "message"),
    [
        ([], "empty"), ([0, 40], "position 1"), ([-1], "position 0"), (["a"], "position 0"), ([True], "position 0"),
        ("a", "position 0"), (b"\2", "token ids"), (None, "token ids"), (5, "token ids"),
        (torch.tensor(1), "token ids"), ({2: 3}, "token ids"),
    ],
)  # fmt: skip
def test_a_bad_prompt_is_refused_at_the_door(prompt_ids: Any, message: str) -> None:
    with (
        Engine(ScriptedSource({}), tiny_vocabulary(), backend="trie") as engine,
        pytest.raises(InvalidPromptError, match=message),
    ):
        engine.add(Request(prompt_ids=prompt_ids))


def test_the_context_bounds_prompt_and_output() -> None:
    class Short(ScriptedSource):
        max_length = 4

    source = Short({A: [B] * 9}, prompt_length=2)
    with Engine(source, tiny_vocabulary(), backend="trie") as engine:
        with pytest.raises(InvalidPromptError, match="shorten it by at least 1"):
            engine.add(Request(prompt_ids=[A] * 4))
        engine.add(Request(prompt_ids=[A, A], params=GREEDY))
        [result] = engine.run()
    assert (result.token_ids, result.finish_reason) == ((B, B), "length")


def test_vocabularies_that_do_not_fit_are_refused() -> None:
    with pytest.raises(VocabularyError, match="40"):
        Engine(ScriptedSource({}), tiny_vocabulary(logits_width=64))
    other = Vocabulary([b"x", b""], stop_token_ids=[1], logits_width=40)
    with pytest.raises(VocabularyError, match="another vocabulary"):
        Engine(ScriptedSource({}), tiny_vocabulary(), backend=make_backend("trie", other))
    with Engine(ScriptedSource({}), tiny_vocabulary(), backend="trie") as engine:
        compiled = TrieBackend(other).compile(choice(["x"]))
        with pytest.raises(VocabularyError, match="another vocabulary"):
            engine.add(Request(prompt_ids=[A], constraint=compiled))
        with pytest.raises(InvalidInputError, match="as_grammar_spec"):
            engine.add(Request(prompt_ids=[A], constraint=["a", "b"]))  # type: ignore[arg-type]


def test_a_closed_engine_says_so() -> None:
    source = ScriptedSource({A: [B] * 20})
    engine = Engine(source, tiny_vocabulary(), backend="trie")
    engine.add(request(A, ebnf('root ::= "b"+')))
    while not source.calls:
        engine.step()
    engine.close()
    engine.close()
    assert source.released == [0]
    with pytest.raises(ClosedError):
        engine.add(request(A))
    with pytest.raises(ClosedError):
        engine.step()
