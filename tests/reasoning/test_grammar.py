"""The grammar around content, against a reading of the whole text."""

import random
from dataclasses import dataclass

import pytest
import torch

from constrain import Grammar, GrammarSpec, RowState, Vocabulary, choice, regex
from constrain.reasoning import CompiledReasoning, Reasoning, ReasoningFormat, ReasoningGrammar, compile_reasoning
from constrain.tags import Special, Tag, tagged_text
from tests.reasoning.reference import Reference
from tests.reasoning.tiny import STOPS, compiled, ids, legal, row_of, special, vocabulary

TEXTUAL = ReasoningFormat(start="<b>", end="</b>", after_end="\n\n")
SPECIAL = ReasoningFormat(start="<think>", end="</think>", after_end="\n")
BRACKET = ReasoningFormat(start="[T", end="]]")  # [T and [1 share [
MIXED = ReasoningFormat(start="<|channel|>ab", end="a<think>b>")


@dataclass(frozen=True)
class Case:
    """A format, a content, and how thinking begins."""

    reasoning_format: ReasoningFormat
    content: GrammarSpec | None
    required: bool = False
    prompt: tuple[str | int, ...] = ()
    end_markers: tuple[str, ...] = ()
    content_starts: tuple[str, ...] = ()

    def compiled(self, budget: int | None = None) -> CompiledReasoning:
        options = Reasoning(
            parser=self.reasoning_format,
            required=self.required,
            budget=budget,
            end_markers=self.end_markers,
            content_starts=self.content_starts,
        )
        content = None if self.content is None else compiled(self.content)
        return compile_reasoning(content, vocabulary(), options, ids(*self.prompt))

    def reference(self) -> Reference:
        content = None if self.content is None else compiled(self.content)
        markers = (self.end_markers, self.content_starts)
        return Reference(self.reasoning_format, content, self.required, bool(self.prompt), *markers)


CASES = {
    "text-open": Case(TEXTUAL, choice(["[1]", "x"]), prompt=("<b>",)),
    "text-required": Case(TEXTUAL, choice(["[1]", "\n[1]"]), required=True),
    "text-optional": Case(TEXTUAL, choice(["<b", "<a", "x", "<b>1"])),
    "text-any": Case(TEXTUAL, regex("(?s:.{0,6})")),
    "text-free": Case(TEXTUAL, None),
    "text-tool": Case(TEXTUAL, regex("\\[[12]{1,4}]"), prompt=("<b>",), end_markers=("<call>", "bx")),
    "text-call": Case(
        TEXTUAL,
        choice(["[1]", "ab[1", "ab]]", "x"]),
        prompt=("<b>",),
        content_starts=("ab",),
        end_markers=("bx",),
    ),
    "special-call": Case(
        SPECIAL,
        tagged_text([Tag(Special("<call>"), regex("[ab]+"), "[")], at_least_one=True),
        content_starts=("<call>",),
        required=True,
    ),
    "text-call-free": Case(TEXTUAL, None, content_starts=("a<x", "</b>")),
    "special-open": Case(SPECIAL, regex("\\[[12]{1,4}]"), prompt=(special("<think>"),)),
    "special-optional": Case(SPECIAL, regex("\n?[ab]*")),
    "special-free": Case(SPECIAL, None, required=True),
    "bracket-optional": Case(BRACKET, choice(["[1]", "[12]"])),
    "bracket-free": Case(BRACKET, None),
    "mixed": Case(MIXED, choice(["ab", "a"])),
    "mixed-required": Case(MIXED, None, required=True),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def some_output(grammar: Grammar, case: Case, rng: random.Random, length: int = 24) -> list[int]:
    """A legal output that likes to begin, break off and complete markers, and to stop."""
    markers = (case.reasoning_format.start, case.reasoning_format.end, *case.end_markers, *case.content_starts)
    parts = {
        i
        for i, token in enumerate(vocabulary().token_bytes)
        for marker in markers
        if token and token in marker.encode()
    }
    liked = {*parts, *vocabulary().special_tokens.values(), *ids("\n", "\n\n", "[", "1", "]"), *STOPS}
    out: list[int] = []
    while len(out) < length and not grammar.is_terminated:
        allowed = legal(grammar)
        if not allowed:
            break
        pool = sorted(allowed & liked) if rng.random() < 0.7 else sorted(allowed)
        out.append(rng.choice(pool or sorted(allowed)))
        assert grammar.accept(out[-1:]) == 1
    grammar.reset()
    return out


@pytest.mark.parametrize("seed", range(6))
def test_exactly_what_the_whole_text_allows_is_legal(case: Case, seed: int) -> None:
    grammar, reference = case.compiled().start(), case.reference()
    tokens = some_output(grammar, case, random.Random(seed))
    for at, token_id in enumerate([*tokens, None]):
        if not grammar.is_terminated:
            state, found = row_of(grammar)
            assert set(found) == reference.legal(tokens[:at]), tokens[:at]
            assert set(found) == {i for i in range(-300, vocabulary().logits_width + 9) if grammar.validate([i])}
            assert row_of(grammar) == (state, found)
            is_free = len(found) == vocabulary().size
            assert state is (RowState.FREE if is_free else RowState.CONSTRAINED if found else RowState.DEAD_END)
        if token_id is not None:
            assert grammar.accept([token_id]) == 1


@pytest.mark.parametrize("budget", [None, 4])
@pytest.mark.parametrize("seed", range(4))
def test_windows_that_are_accepted_and_rolled_back_change_nothing(case: Case, seed: int, budget: int | None) -> None:
    made, rng = case.compiled(budget), random.Random(seed)
    tokens = some_output(made.start(), case, rng)
    rows, splits, grammar = [], [], made.start()
    for at in range(len(tokens) + 1):  # one token at a time
        rows.append(row_of(grammar))
        splits.append(made.split(tokens[:at]))
        assert grammar.accept(tokens[at : at + 1]) == len(tokens[at : at + 1])
    for size in range(1, 10):
        for first in range(size):
            grammar, at = made.start(), 0
            for end in (*range(first, len(tokens), size), len(tokens)):
                draft = tokens[at:end]
                junk = [rng.randrange(vocabulary().size) for _ in range(3)]
                kept = grammar.accept([*draft, *junk])
                assert len(draft) <= kept and grammar.num_accepted == at + kept
                grammar.rollback(kept)
                assert row_of(grammar) == rows[at] and grammar.num_accepted == at
                assert grammar.validate(draft) == grammar.accept(draft) == len(draft)
                at = end
                assert row_of(grammar) == rows[at]
    for back in range(len(tokens) + 1):
        twin = grammar.fork()
        twin.rollback(back)
        assert row_of(twin) == rows[len(tokens) - back]
    for at, split in enumerate(splits):  # as it grows, cut at every place
        for cut in range(at + 1):
            splitter = made.splitter()
            pieces = [splitter.feed(tokens[:cut]), splitter.feed(tokens[cut:at]), splitter.finish()]
            assert "".join(piece.reasoning for piece in pieces) == split.reasoning
            assert "".join(piece.text for piece in pieces) == split.text
            assert splitter.end_index == split.end_index


@pytest.mark.parametrize("seed", range(12))
def test_an_output_is_split_where_the_whole_text_says(case: Case, seed: int) -> None:
    made = case.compiled()
    tokens = some_output(made.start(), case, random.Random(100 + seed))
    reading, split, grammar = case.reference().read(tokens), made.split(tokens), made.start()
    assert reading is not None and grammar.accept(tokens) == len(tokens)
    assert isinstance(grammar, ReasoningGrammar)
    content_at = grammar.num_before_content
    if reading.content_at is None:  # special tokens of the format may be thought, and are no text
        wanted = "".join(char for char in reading.reasoning if char < "\ue000")
        assert (split.reasoning, split.text, split.end_index) == (wanted, "", None)
    elif split.ended_by in case.content_starts or reading.content_at == content_at:
        content_at = reading.content_at
        assert split.reasoning == "".join(char for char in reading.reasoning if char < "\ue000")
        assert split.text == vocabulary().decode(tokens[content_at:]).decode()
        assert split.end_index == content_at


def test_the_two_branches_live_until_one_dies() -> None:
    grammar = CASES["bracket-optional"].compiled().start()
    assert legal(grammar) == set(ids("[", "[1"))
    assert grammar.accept(ids("[")) == 1
    assert legal(grammar) == set(ids("1", "1]", "T"))
    assert grammar.accept(ids("T")) == 1 and not legal(grammar) & set(STOPS)
    grammar.rollback(1)
    assert grammar.accept(ids("1")) == 1
    assert legal(grammar) == set(ids("]", "2"))


def test_a_complete_start_marker_decides_for_thinking() -> None:
    grammar = CASES["text-optional"].compiled().start()
    assert grammar.accept(ids("<b", ">")) == 2
    assert special("<user>") not in legal(grammar) and not legal(grammar) & set(STOPS)
    assert set(ids("x", "[")) <= legal(grammar)


def test_no_token_holds_the_end_of_a_marker_and_more() -> None:
    grammar = CASES["text-free"].compiled().start()
    assert not legal(grammar) & set(ids("<b>")) ^ set(ids("<b>"))
    assert grammar.accept(ids("<b>")) == 1
    assert set(ids("</b>", ">a")) <= legal(grammar) and not set(ids("</b>\n")) & legal(grammar)
    assert grammar.accept(ids("</", "b")) == 2
    assert set(ids(">")) <= legal(grammar) and not set(ids(">a")) & legal(grammar)


def test_padding_roles_and_holes_are_no_thoughts() -> None:
    grammar = CASES["special-open"].compiled().start()
    bare = {i for i, token in enumerate(vocabulary().token_bytes) if not token}
    assert legal(grammar) & bare == {special("<think>"), special("</think>")}


def test_a_marker_that_is_special_here_is_plain_text_there() -> None:
    spelled = vocabulary().encode("</b>")
    named = compile_reasoning(None, vocabulary(), Reasoning(parser=SPECIAL), ids(special("<think>"))).start()
    assert named.accept([*spelled, special("</think>"), STOPS[0]]) == len(spelled) + 2
    textual = CASES["text-open"].compiled().start()
    assert textual.accept([*spelled, *ids("x"), STOPS[0]]) == len(spelled) + 2


def test_a_tool_marker_ends_thinking_and_is_no_content() -> None:
    made = CASES["text-tool"].compiled()
    for marker in ([special("<call>")], ids("b", "x")):
        tokens = [*ids("a"), *marker]
        grammar = made.start()
        assert grammar.accept(tokens) == len(tokens)
        assert not legal(grammar) & set(ids("a", "x"))
        split = made.split(tokens)
        assert (split.reasoning, split.text, split.end_index) == ("a", "", len(tokens))
        assert split.ended_by == ("<call>" if len(marker) == 1 else "bx")


def test_white_space_behind_the_marker_is_nobodys_and_runs_out() -> None:
    made = CASES["text-open"].compiled()
    for space in ([], ["\n"], ["\n", "\n"], ["\n\n"]):
        tokens = ids("a", "</b>", *space, "x")
        grammar = made.start()
        assert grammar.accept([*tokens, STOPS[0]]) == len(tokens) + 1
        assert (made.split(tokens).text, made.split(tokens).end_index) == ("x", len(tokens) - 1)
    assert made.start().accept(ids("</b>", "\n\n", "\n")) == 2
    assert made.start().accept(ids("</b>", "\n", "\n\n")) == 2
    assert made.start().accept(ids("</b>", "\n[")) == 1


def test_in_reasoning_the_constraint_holds_from_the_first_token() -> None:
    options = Reasoning(parser="think", in_reasoning=True)
    for prompt in ([], [special("<think>")]):
        made = compile_reasoning(compiled(choice(["[1]", "x"])), vocabulary(), options, prompt)
        assert legal(made.start()) == set(ids("[", "[1", "x"))
        assert made.split(ids("x")).text == "x"


def test_a_dead_end_of_the_content_is_a_dead_end() -> None:
    # The vocabulary has no "z".
    made = compile_reasoning(
        compiled(regex("[ab]z")), vocabulary(), Reasoning(parser=TEXTUAL), ids("<b>")
    )  # fmt: skip
    grammar = made.start()
    assert grammar.accept(ids("</b>", "\n", "\n", "a")) == 4
    before = row_of(grammar)
    assert before == (RowState.DEAD_END, ())
    assert all(grammar.accept([i]) == 0 for i in range(vocabulary().size))
    grammar.rollback(2)
    assert row_of(grammar)[1] and grammar.accept(ids("a")) == 1 and row_of(grammar) == before
    optional = compile_reasoning(compiled(regex("z")), vocabulary(), Reasoning(parser=TEXTUAL)).start()
    assert legal(optional) == set(ids("<", "<b", "<b>"))


def test_a_marker_that_cannot_be_finished_as_begun_is_a_dead_end() -> None:
    odd = Vocabulary([b"", b"ab", b"a", b"x"], stop_token_ids=[0])
    made = compile_reasoning(None, odd, Reasoning(parser=ReasoningFormat(start="ab", end="x"), required=True))
    grammar = made.start()
    assert grammar.accept([2]) == 1 and grammar.forced_tokens() == []
    assert grammar.fill_bitmask(torch.zeros(1, odd.num_mask_words, dtype=torch.int32), 0) is RowState.DEAD_END


def test_the_start_marker_is_forced_where_thinking_is_required() -> None:
    grammar = CASES["text-required"].compiled().start()
    assert grammar.forced_tokens() == vocabulary().encode("<b>")
    assert grammar.accept(ids("<")) == 1 and grammar.forced_tokens() == vocabulary().encode("b>")
    assert CASES["text-optional"].compiled().start().forced_tokens() == []


def test_the_grammars_of_one_compile_share_nothing() -> None:
    made = CASES["text-optional"].compiled()
    one, other = made.start(), made.start()
    before = row_of(other)
    assert one.accept(ids("<b>", "a")) == 2
    assert row_of(other) == before and other.num_accepted == 0


def test_no_token_holds_the_end_of_the_start_marker_and_more_though_it_were_content() -> None:
    grammar = CASES["text-any"].compiled().start()
    assert compiled(regex("(?s:.{0,6})")).start().validate(ids("<b>a")) == 1
    assert not set(ids("<b>a")) & legal(grammar) and grammar.validate(ids("<b>a")) == 0
    assert grammar.accept(ids("<")) == 1
    assert not set(ids("b>a")) & legal(grammar) and set(ids("b>", "b", "a")) <= legal(grammar)
