"""The end of a step: its tokens become output, one request at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from constrain.engine.active import ActiveRequest, DeadEnd, as_backend_error
from constrain.engine.backtrack import is_fixed, place_to_rewind_to
from constrain.engine.plan import StepPlan
from constrain.engine.step import Outcome, Step
from constrain.errors import BackendError, ConstrainError, DeadEndError
from constrain.result import FinishReason
from constrain.sampling.sampler import Sampler
from constrain.source import LogitsSource
from constrain.vocabulary import Vocabulary


@dataclass(slots=True)
class Ending:
    """A request that is to end, and how."""

    sequence: ActiveRequest
    reason: FinishReason
    error: ConstrainError | None = None


class Committer:
    """Advances everything that stands behind the output: grammar, sampler, stop strings, what the result will say."""

    def __init__(self, source: LogitsSource, vocabulary: Vocabulary, sampler: Sampler, max_backtracks: int) -> None:
        self._source = source
        self._vocabulary = vocabulary
        self._sampler = sampler
        self._max_backtracks = max_backtracks

    def commit(self, plan: StepPlan, step: Step) -> list[Ending]:
        """Make the tokens of a step output, and take back what led to a dead end; the requests that are to end now."""
        endings: list[Ending | None] = []
        committed: list[tuple[ActiveRequest, list[int]]] = []
        for index, (sequence, outcome) in enumerate(zip(plan.batch, step.outcomes, strict=True)):
            if index in step.prompt_logprobs:
                sequence.prompt_logprobs = [None, *step.prompt_logprobs[index]]
            before = sequence.num_output
            endings.append(self._commit_tokens(sequence, outcome))
            committed.append((sequence, sequence.output_ids[before:]))
            outcome.num_committed = len(committed[-1][1])
            self._note(sequence, outcome, step)
        self._sampler.commit([each.slot for each, _ in committed], [ids for _, ids in committed])
        return [ending for ending in endings if ending is not None and not self._backtracks(ending)]

    def _commit_tokens(self, sequence: ActiveRequest, outcome: Outcome) -> Ending | None:
        """Advance over the tokens of a step, up to the one that ends the request."""
        tokens, ending = self._until_the_end(sequence, outcome)
        try:
            num_accepted = len(tokens) if sequence.grammar is None else sequence.grammar.accept(tokens)
        except BaseException as exc:
            return Ending(sequence, "error", as_backend_error(exc, sequence.backend))
        sequence.output_ids += tokens[:num_accepted]
        if num_accepted < len(tokens):
            message = f"{sequence.backend} refused token {tokens[num_accepted]}, which its own mask allowed"
            return Ending(sequence, "error", BackendError(message))
        return ending

    def _until_the_end(self, sequence: ActiveRequest, outcome: Outcome) -> tuple[list[int], Ending | None]:
        limit = self._source.max_length
        most = sequence.request.params.max_tokens
        if limit is not None:
            most = min(most, limit - len(sequence.prompt_ids))
        tokens: list[int] = []
        for token_id in outcome.tokens:
            tokens.append(token_id)
            if token_id in sequence.restrictions.ending_ids:
                if token_id not in self._vocabulary.stop_token_ids:
                    sequence.stop_reason = token_id
                return tokens, Ending(sequence, "stop")
            if self._meets_a_stop_string(sequence, token_id, sequence.num_output + len(tokens)):
                return tokens, Ending(sequence, "stop")
            if sequence.num_output + len(tokens) >= most:
                return tokens, Ending(sequence, "length")
        if outcome.error is None:
            return tokens, None
        return tokens, Ending(
            sequence, "dead_end" if isinstance(outcome.error, DeadEndError) else "error", outcome.error
        )

    def _meets_a_stop_string(self, sequence: ActiveRequest, token_id: int, num_output: int) -> bool:
        if sequence.stop_strings is None:
            return False
        counts = num_output >= sequence.request.params.min_tokens
        found = sequence.stop_strings.feed(_text_of(sequence, [token_id]), counts=counts)
        if found is not None:
            sequence.stop_reason, sequence.stopped_at = found
        return found is not None

    def _note(self, sequence: ActiveRequest, outcome: Outcome, step: Step) -> None:
        """Keep what the result says of each token."""
        rows = range(outcome.first_row, outcome.first_row + outcome.num_committed)
        sequence.min_tokens_yielded |= any(row in step.masks.yielded for row in rows)
        if sequence.request.params.wants_logprobs:
            sequence.logprobs += [step.sampled.logprobs[row] for row in rows]

    def _backtracks(self, ending: Ending) -> bool:
        """Take back the tokens that led to a dead end, and ban the first of them where it stood; False if it ends."""
        if ending.reason != "dead_end":
            return False
        sequence = ending.sequence
        self._keep_furthest(sequence, ending)
        may_go_back = sequence.num_backtracks < self._max_backtracks
        place = place_to_rewind_to(sequence) if may_go_back else None
        if place is None:
            assert sequence.furthest is not None
            sequence.output_ids[:] = sequence.furthest.output_ids
            sequence.logprobs[:] = sequence.furthest.logprobs
            ending.error = sequence.furthest.error
            if may_go_back and is_fixed(sequence):
                ending.error = DeadEndError(f"{ending.error}; tokens that were handed out as stable are not taken back")
            return False
        removed = sequence.output_ids[place:]
        if sequence.grammar is not None:
            try:
                sequence.grammar.rollback(len(removed))
            except BaseException as exc:
                ending.reason, ending.error = "error", as_backend_error(exc, sequence.backend)
                return False
        if sequence.stop_strings is not None:
            sequence.text_reader = sequence.reader.text_reader()
            sequence.stop_strings.cut(len(_text_of(sequence, sequence.output_ids[:place])))
        del sequence.output_ids[place:], sequence.logprobs[place:]
        self._sampler.rewind(sequence.slot, removed)
        sequence.bans = {index: banned for index, banned in sequence.bans.items() if index <= place}
        sequence.bans.setdefault(place, set()).add(removed[0])
        sequence.num_handed_out = min(sequence.num_handed_out, place)
        sequence.num_backtracks += 1
        return True

    def _keep_furthest(self, sequence: ActiveRequest, ending: Ending) -> None:
        assert ending.error is not None
        furthest, fixed = sequence.furthest, sequence.output_ids[: sequence.num_fixed]
        goes_on = furthest is not None and list(furthest.output_ids[: len(fixed)]) == fixed
        if furthest is None or not goes_on or len(furthest.output_ids) < sequence.num_output:
            sequence.furthest = DeadEnd(tuple(sequence.output_ids), tuple(sequence.logprobs), ending.error)


def _text_of(sequence: ActiveRequest, token_ids: Sequence[int]) -> bytes:
    """What the next tokens add to the text in which stop strings count."""
    assert sequence.text_reader is not None
    return sequence.text_reader.feed(token_ids).text.encode()
