"""Building a `Vocabulary` from real tokenizers of 128,000 to 248,000 tokens, and checking it.

`get_vocab` is the tokenizer's own listing of its tokens, in the same run: reading them cannot be cheaper. Needs the
files of `make vocabularies`.

    python benchmarks/bench_vocabulary.py [--rounds 3]
"""

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from constrain import Vocabulary
from tests import vocabularies


def best(function: Callable[[], Any], rounds: int) -> float:
    """Seconds of CPU time, the best of ``rounds``."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{platform.machine()}, Python {platform.python_version()}; CPU seconds, best of {rounds} (check: once)")
    print(f"{'family':>9} {'tokens':>8} {'get_vocab':>10} {'from_tokenizer':>15} {'from_ranks':>11} {'check':>6}")
    for family, load in vocabularies.RANKS.items():
        parts = load()
        tokenizer = vocabularies.transformers_tokenizer(parts)
        stops = [parts.special_tokens[parts.stop_token]]
        vocabulary = Vocabulary.from_tokenizer(tokenizer)

        def from_ranks(parts: vocabularies.Ranks = parts, stops: list[int] = stops) -> Vocabulary:
            return Vocabulary.from_ranks(parts.ranks, parts.special_tokens, stop_token_ids=stops)

        def from_tokenizer(tokenizer: Any = tokenizer) -> Vocabulary:
            return Vocabulary.from_tokenizer(tokenizer)

        def check(vocabulary: Vocabulary = vocabulary, tokenizer: Any = tokenizer) -> None:
            vocabulary.check(tokenizer)

        print(
            f"{family:>9} {vocabulary.size:>8} {best(tokenizer.get_vocab, rounds):>10.3f} "
            f"{best(from_tokenizer, rounds):>15.3f} {best(from_ranks, rounds):>11.3f} {best(check, 1):>6.2f}"
        )


if __name__ == "__main__":
    main()
