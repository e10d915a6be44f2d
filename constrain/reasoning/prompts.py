"""What a prompt says about the thinking of its output."""

from collections.abc import Sequence
from numbers import Integral

from constrain.errors import InvalidPromptError
from constrain.reasoning.bound import BoundFormat
from constrain.reasoning.thinking import Phase, Thinking, Track


def track_of_prompt(bound: BoundFormat, prompt_ids: Sequence[int]) -> Track:
    """Where ``prompt_ids`` leave the output: START, INSIDE, BEHIND or CONTENT.

    Only the last message counts: a special token that the format does not name (a role, an end of turn, padding) or one
    of its ``turns`` begins a new one, so that markers in what a user wrote open nothing. Raises ``InvalidPromptError``
    for what is no token id.
    """
    _check(prompt_ids)
    thinking, track, place = Thinking(bound), Track(Phase.START), 0
    matcher = bound.prompt_matcher
    for token_id in prompt_ids[_last_message(bound, prompt_ids) :]:
        symbols = bound.symbols_of_token(token_id)
        target, _ = matcher.walk(place, symbols)
        if matcher.found[target] is None and track.phase in (Phase.START, Phase.CONTENT):  # nearly always
            place = target
            continue
        for symbol in symbols:
            place = matcher.step(place, symbol)
            found = matcher.found[place]
            if found == bound.first_start:
                track = Track(Phase.INSIDE)
            elif found is not None:
                track = _behind(thinking, found) if found < len(bound.ends) else Track(Phase.START)
            elif track.phase is not Phase.START:
                track = thinking.step(track, symbol)
    return track


def _check(prompt_ids: Sequence[int]) -> None:
    if isinstance(prompt_ids, str | bytes):
        raise InvalidPromptError(f"a prompt is token ids here, not {prompt_ids!r:.80}; encode it first")
    for at, token_id in enumerate(prompt_ids):
        if type(token_id) is not int and (not isinstance(token_id, Integral) or isinstance(token_id, bool)):
            raise InvalidPromptError(f"prompt token {token_id!r} at position {at}: want a token id, an int")


def _behind(thinking: Thinking, ended_by: int) -> Track:
    """Behind an end marker of the prompt. What of content stands in a prompt is the constraint's no more."""
    if thinking.bound.starts_content[ended_by]:
        return Track(Phase.CONTENT)
    return thinking.behind(ended_by)


def _last_message(bound: BoundFormat, prompt_ids: Sequence[int]) -> int:
    specials, size = bound.vocabulary.special_token_ids - bound.special_ids, bound.vocabulary.size
    for at in range(len(prompt_ids) - 1, -1, -1):
        token_id = prompt_ids[at]
        if token_id in specials or not 0 <= token_id < size:
            return at + 1
    return 0
