"""Stop strings: texts that end an output where they first appear."""

from collections.abc import Sequence


class StopStrings:
    """Looks for any of ``texts`` in the bytes of an output as it grows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = {text.encode(): text for text in texts}
        self._output = bytearray()

    def feed(self, token_bytes: bytes, *, counts: bool = True) -> tuple[str, int] | None:
        """Add a token; the stop string that it completes, and the length in bytes of the output before it.

        The earliest in the text counts, the longest of those that begin together. Where not ``counts``, what the token
        completes will not count later either.
        """
        looked_until = len(self._output)  # no match may end before
        self._output += token_bytes
        if not counts:
            return None
        found: list[tuple[int, int, str]] = []
        for pattern, text in self._texts.items():
            at = self._output.find(pattern, max(looked_until - len(pattern) + 1, 0))
            if at >= 0:
                found.append((at, -len(pattern), text))
        if not found:
            return None
        at, _, text = min(found)
        return text, at

    def cut(self, num_bytes: int) -> None:
        """Keep the first bytes: what came behind them is output no more."""
        del self._output[num_bytes:]
