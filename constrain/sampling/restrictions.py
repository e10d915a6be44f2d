"""What may not be drawn, beside what a grammar forbids: allowed ids, bad words, minimum length, a bias of -inf.

These are hard, so they are bits: taken out of the host's mask row, behind the grammar and beside the forward pass. No
kernel knows of them, and a row of a draft is treated as the row of a request that had committed the draft before it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingParams

_Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Restrictions:
    """The parameters of one request that name tokens, for one vocabulary. Immutable; requests may share it."""

    kept: _Words | None  # bits of the ids that are not forbidden everywhere; None forbids nothing
    bad_sequences: tuple[tuple[int, ...], ...]  # two tokens or more; bad words of one token are in ``kept``
    min_tokens: int
    ending_ids: frozenset[int]
    """The ids that end the output: the vocabulary's stop tokens unless they are ignored, and ``stop_token_ids``."""

    def needs_mask(self, num_output: int) -> bool:
        """Whether a bit may have to go from a row behind ``num_output`` tokens or more."""
        is_short = num_output < self.min_tokens and bool(self.ending_ids)
        return self.kept is not None or bool(self.bad_sequences) or is_short

    def restrict_(
        self,
        mask_row: torch.Tensor | npt.NDArray[np.int32],  # [W] int32 on the host, changed in place
        output_ids: Sequence[int],
        draft_prefix: Sequence[int] = (),
    ) -> bool:
        """Take from a filled row what may not stand behind ``output_ids`` and then ``draft_prefix``.

        Returns whether the minimum length yielded, which it does where only tokens that end the output are left.
        Everything else is kept even where it leaves nothing.
        """
        row = mask_row.numpy() if isinstance(mask_row, torch.Tensor) else mask_row
        words = row.view(np.uint32)
        if self.kept is not None:
            words[: len(self.kept)] &= self.kept
        if self.bad_sequences:
            written = _last(max(map(len, self.bad_sequences)) - 1, output_ids, draft_prefix)
            for *before, last in self.bad_sequences:
                if written[-len(before) :] == before:
                    words[last // 32] &= ~_bit(last)
        if len(output_ids) + len(draft_prefix) >= self.min_tokens:
            return False
        return self._forbid_the_end_(words)

    def _forbid_the_end_(self, words: _Words) -> bool:
        places = sorted({token_id // 32 for token_id in self.ending_ids})
        before = words[places]
        for token_id in self.ending_ids:
            words[token_id // 32] &= ~_bit(token_id)
        if words.any():
            return False
        words[places] = before
        return bool(before.any())


def resolve(
    params: SamplingParams,
    vocab_size: int,
    stop_token_ids: Collection[int],  # of the vocabulary
    tokenize: Callable[[str], Sequence[int]],  # the tokens that write a text, without special tokens
) -> Restrictions:
    """What ``params`` asks of one vocabulary; ``InvalidInputError`` for ids outside of it."""
    for name in ("allowed_token_ids", "logit_bias", "stop_token_ids", "logprob_token_ids"):
        ids: Iterable[int] = getattr(params, name) or ()
        wrong = sorted(token_id for token_id in ids if token_id >= vocab_size)
        if wrong:
            raise InvalidInputError(f"{name}: {wrong} lie outside the vocabulary; want ids in [0, {vocab_size})")
    for name in ("logprobs", "prompt_logprobs"):
        if (getattr(params, name) or 0) > vocab_size:
            raise InvalidInputError(
                f"{name}={getattr(params, name)}: the vocabulary has {vocab_size} tokens; want fewer, or -1 for all"
            )
    sequences = [sequence for word in params.bad_words for sequence in _token_sequences(word, tokenize)]
    forbidden = {sequence[0] for sequence in sequences if len(sequence) == 1}
    forbidden.update(token_id for token_id, bias in (params.logit_bias or {}).items() if bias == float("-inf"))
    stops = () if params.ignore_eos else stop_token_ids
    return Restrictions(
        kept=_kept(params.allowed_token_ids, forbidden, vocab_size),
        bad_sequences=tuple(dict.fromkeys(sequence for sequence in sequences if len(sequence) > 1)),
        min_tokens=params.min_tokens,
        ending_ids=frozenset(params.stop_token_ids).union(stops),
    )


def _token_sequences(word: str, tokenize: Callable[[str], Sequence[int]]) -> list[tuple[int, ...]]:
    """The word as tokens, without and with a space before it; a form that no tokens write cannot be drawn."""
    found: list[tuple[int, ...]] = []
    cause: Exception | None = None
    for text in (word.lstrip(" "), " " + word.lstrip(" ")):
        try:
            found.append(tuple(map(int, tokenize(text))))
        except Exception as exc:
            cause = exc
    found = [sequence for sequence in found if sequence]
    if not found:
        raise InvalidInputError(f"bad_words: the vocabulary has no tokens for {word!r}; leave it out") from cause
    return found


def _kept(allowed: Sequence[int] | None, forbidden: set[int], vocab_size: int) -> _Words | None:
    if allowed is None and not forbidden:
        return None
    bits = np.full(-(-vocab_size // 32) * 32, allowed is None)
    bits[list(allowed or ())] = True
    bits[list(forbidden)] = False
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)


def _last(count: int, output_ids: Sequence[int], draft_prefix: Sequence[int]) -> list[int]:
    """The last tokens of output and drafts, at most ``count``."""
    from_draft = draft_prefix[max(0, len(draft_prefix) - count) :]
    from_output = output_ids[max(0, len(output_ids) - count + len(from_draft)) :]
    return [*from_output, *from_draft]


def _bit(token_id: int) -> np.uint32:
    return np.uint32(1 << token_id % 32)
