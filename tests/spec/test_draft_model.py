"""A draft model on a scripted source and on tables of logits."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from constrain.backends import make_backend
from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import Grammar
from constrain.grammar_spec import regex
from constrain.sampling.ops.fused import sample_rows
from constrain.sampling.params import SamplingParams
from constrain.sampling.rows import Rows
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms
from constrain.source import FunctionSource, LogitsSource, SequenceView
from constrain.spec.draft import Draft, DrawKey
from constrain.spec.draft_model import DraftModelProposer
from tests.tiny import EOS, ONE, PAD, TWO, A, B, ScriptedSource, tiny_vocabulary

VOCABULARY = tiny_vocabulary()
GREEDY = DrawKey(SamplingParams(temperature=0.0), 0, 0)


def propose(
    source: LogitsSource,
    prompts: Sequence[list[int]],
    lengths: Sequence[int],
    *,
    grammars: Sequence[Grammar | None] | None = None,
    keys: Sequence[DrawKey] | None = None,
    probabilities: bool = False,
) -> list[Draft]:
    proposer = DraftModelProposer(source, VOCABULARY, probabilities=probabilities)
    views = [SequenceView(slot, prompt) for slot, prompt in enumerate(prompts)]
    return proposer.propose(views, grammars or [None] * len(views), lengths, keys or [GREEDY] * len(views))


def test_drafts_are_what_the_model_would_write_each_of_its_length() -> None:
    source = ScriptedSource({A: [ONE, TWO, ONE, TWO], B: [B, B, B, B], TWO: [ONE, EOS, ONE]})
    drafts = propose(source, [[A], [B], [TWO], [A]], [3, 1, 5, 0])
    assert [draft.token_ids for draft in drafts] == [(ONE, TWO, ONE), (B,), (ONE, EOS), ()]
    assert all(draft.probabilities is None for draft in drafts)
    assert [len(call) for call in source.calls] == [3, 2, 1], "requests that have their draft are asked for no more"
    assert source.calls[1][0].token_ids == (A, ONE) and source.calls[1][0].num_logits == 1


def test_nothing_is_drafted_that_the_grammar_refuses_and_it_is_put_back() -> None:
    grammar = make_backend("trie", VOCABULARY).compile(regex("a[12]b?")).start()
    dead = make_backend("trie", VOCABULARY).compile(regex("bz")).start()
    [draft, short] = propose(ScriptedSource({A: [B] * 5}), [[A], [A]], [5, 5], grammars=[grammar, dead])
    assert draft.token_ids[0] == A and draft.token_ids[2:] == (B, EOS) and grammar.validate(draft.token_ids) == 4
    assert short.token_ids == (B,), "no token goes on behind b"
    assert grammar.num_accepted == dead.num_accepted == 0


def test_a_source_that_raises_leaves_the_grammar_where_it_stood() -> None:
    def function(prefixes: list[list[int]]) -> torch.Tensor:
        if len(prefixes[0]) > 2:
            raise RuntimeError("no memory")
        return torch.zeros(len(prefixes), 40)

    grammar = make_backend("trie", VOCABULARY).compile(regex("[ab]{9}")).start()
    with pytest.raises(Exception, match="no memory"):
        propose(FunctionSource(function), [[A]], [5], grammars=[grammar])
    assert grammar.num_accepted == 0


def test_drafts_end_where_the_sources_context_does() -> None:
    source = FunctionSource(lambda prefixes: torch.zeros(len(prefixes), 40), max_length=4)
    [draft] = propose(source, [[A, A]], [9])
    assert len(draft) == 3  # behind 2, 3 and 4 tokens


def test_draws_are_keyed_by_seed_and_index_and_use_the_purpose_of_drafts() -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(3))
    source = FunctionSource(lambda prefixes: logits.expand(len(prefixes), -1))
    keys = [DrawKey(SamplingParams(temperature=0.7), seed, 5) for seed in (1, 2, 3)]
    drafts = propose(source, [[A], [B], [A]], [4, 4, 2], keys=keys, probabilities=True)
    exact = torch.softmax(logits[: VOCABULARY.size].double() / 0.7, dim=0)
    for key, draft in zip(keys, drafts, strict=True):
        stop = draft.token_ids.index(EOS) + 1 if EOS in draft.token_ids else len(draft)
        u = uniforms([key.seed] * stop, range(5, 5 + stop), Purpose.DRAFT)
        wanted = np.searchsorted(exact.cumsum(0).numpy(), u.numpy(), side="right").tolist()
        assert list(draft.token_ids) == wanted
        assert draft.probabilities is not None and draft.probabilities.shape == (stop, VOCABULARY.size)
        torch.testing.assert_close(draft.probabilities.double(), exact.expand(stop, -1), rtol=1e-5, atol=1e-7)
    assert propose(source, [[A]], [4], keys=[keys[1]])[0].token_ids == drafts[1].token_ids


def test_probabilities_are_those_behind_mask_and_truncation() -> None:
    logits = torch.arange(40.0) / 10
    source = FunctionSource(lambda prefixes: logits.expand(len(prefixes), -1))
    grammar = make_backend("trie", VOCABULARY).compile(regex("[ab12 ]{9}")).start()
    key = DrawKey(SamplingParams(top_k=2), 7, 0)
    [draft] = propose(source, [[A]], [3], grammars=[grammar], keys=[key], probabilities=True)
    assert draft.probabilities is not None
    assert (draft.probabilities > 0).sum(dim=1).tolist() == [2, 2, 2]
    assert all(draft.probabilities[place, token] > 0 for place, token in enumerate(draft.token_ids))
    assert not draft.probabilities[:, PAD].any()


def test_a_draft_that_shares_the_targets_noise_agrees_with_it() -> None:
    generator = torch.Generator().manual_seed(8)
    target = torch.randn(VOCABULARY.size, generator=generator)
    near = torch.cat([target + 0.1 * torch.randn(VOCABULARY.size, generator=generator), torch.zeros(28)])
    source = FunctionSource(lambda prefixes: near.expand(len(prefixes), -1))
    agreed = {True: 0, False: 0}
    for seed in range(300):
        ids = torch.arange(VOCABULARY.size)[None]
        noise = gumbel_noise(torch.tensor([seed]), torch.tensor([9]), ids, Purpose.DRAW)[0]
        wanted = int((target + noise).argmax())
        for gumbel in agreed:
            [draft] = propose(source, [[A]], [1], keys=[DrawKey(SamplingParams(), seed, 9, gumbel)])
            agreed[gumbel] += draft.token_ids[0] == wanted
    assert agreed[True] > 270 > 100 > agreed[False]


def test_more_requests_than_one_pass_takes_are_drafted_in_several() -> None:
    source = ScriptedSource({A: [ONE, TWO, ONE], B: [TWO, ONE]})
    proposer = DraftModelProposer(source, VOCABULARY, max_batch_size=2)
    grammar = make_backend("trie", VOCABULARY).compile(regex("[12]+")).start()
    views = [SequenceView(slot, [token]) for slot, token in enumerate([A, B, A, B, A])]
    drafts = proposer.propose(views, [None, None, None, grammar, None], [2, 2, 1, 2, 2], [GREEDY] * 5)
    assert [draft.token_ids for draft in drafts] == [(ONE, TWO), (TWO, ONE), (ONE,), (TWO, ONE), (ONE, TWO)]
    assert [len(call) for call in source.calls] == [2, 2, 1, 2, 2]


def test_another_vocabulary_or_too_many_rows_are_refused() -> None:
    with pytest.raises(VocabularyError, match="share the target's vocabulary"):
        DraftModelProposer(ScriptedSource({}, width=41), VOCABULARY)

    class Small(ScriptedSource):
        max_rows = 2

    with pytest.raises(InvalidInputError):
        DraftModelProposer(Small({}), VOCABULARY, max_batch_size=3)


def test_releasing_a_slot_releases_the_sources() -> None:
    source = ScriptedSource({A: [A]})
    DraftModelProposer(source, VOCABULARY).release(4)
    assert source.released == [4]


def test_a_draft_of_the_targets_own_logits_is_what_the_target_draws() -> None:
    logits = torch.randn(40, generator=torch.Generator().manual_seed(2)) * 2
    source = FunctionSource(lambda prefixes: logits.expand(len(prefixes), -1))
    for seed in (3, 2**64 - 5):
        params = SamplingParams(temperature=0.8, top_k=6, min_p=0.05, seed=seed)
        [draft] = propose(source, [[A]], [4], keys=[DrawKey(params, seed, 11, gumbel=True)])
        table = SlotTable.empty(1, "cpu")
        table.temperature[0], table.top_k[0], table.min_p[0], table.gumbel[0] = 0.8, 6, 0.05, True
        table.seed[0] = seed if seed < 2**63 else seed - 2**64
        features = Features(drawn=True, max_top_k=6, all_top_k=True, min_p=True, gumbel=True)
        rows = Rows.without_drafts([0] * 4, [11, 12, 13, 14]).to(torch.device("cpu"))
        drawn, _ = sample_rows(logits.expand(4, -1), table, rows, features, vocab_size=VOCABULARY.size)
        stop = drawn.tolist().index(EOS) + 1 if EOS in drawn.tolist() else 4
        assert list(draft.token_ids) == drawn.tolist()[:stop]
