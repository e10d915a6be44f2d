"""Text that is watched for strings, as an automaton over characters (Aho and Corasick, 1975)."""

from collections.abc import Sequence
from dataclasses import dataclass

from constrain.regex import Ranges, chars, complement


@dataclass(frozen=True, slots=True)
class Edge:
    """One of the characters ``ranges`` leads to ``target``: a state, or -1 - n behind string n."""

    ranges: Ranges
    target: int


def watched_text(strings: Sequence[str]) -> list[list[Edge]]:
    """The edges of each state; text begins in state 0.

    No string stands inside another. In any state but behind a string no string has been complete.
    """
    prefixes = [""] + [string[:n] for string in strings for n in range(1, len(string))]
    states = {prefix: n for n, prefix in enumerate(dict.fromkeys(prefixes))}
    alphabet = sorted({ord(char) for string in strings for char in string})
    others = complement(chars([(char, char) for char in alphabet]).ranges)
    found = []
    for prefix in states:
        by_target: dict[int, list[tuple[int, int]]] = {0: list(others)}
        for char in alphabet:
            by_target.setdefault(_target(prefix + chr(char), strings, states), []).append((char, char))
        found.append([Edge(chars(ranges).ranges, target) for target, ranges in by_target.items() if ranges])
    return found


def _target(read: str, strings: Sequence[str], states: dict[str, int]) -> int:
    """The state of the longest end of ``read`` that begins a string."""
    for start in range(len(read) + 1):
        end = read[start:]
        if end in states:
            return states[end]
        if end in strings:
            return -1 - list(strings).index(end)
    raise AssertionError("the empty text is a state")
