"""What goes through the model together."""

from constrain.hf.passes import PassLimits, Work, in_passes

LIMITS = PassLimits(max_tokens=256, free_padding=32, free_columns=1000)


def work(*sizes: tuple[int, int]) -> list[Work]:
    """Work of (new tokens, length) each."""
    return [Work(i, i, [0] * length, length - new, 1) for i, (new, length) in enumerate(sizes)]


def passes(*sizes: tuple[int, int], limits: PassLimits = LIMITS) -> list[list[tuple[int, int]]]:
    return [[(each.num_new, each.length) for each in group] for group in in_passes(work(*sizes), limits)]


def test_prompts_share_a_pass_while_padding_is_free() -> None:
    assert passes((100, 100), (70, 70), (67, 67)) == [[(100, 100), (70, 70)], [(67, 67)]]


def test_a_pass_holds_a_bounded_number_of_prompt_tokens() -> None:
    assert [len(group) for group in passes(*[(100, 100)] * 5)] == [2, 2, 1]
    assert [len(group) for group in passes((400, 400), (390, 390))] == [1, 1]


def test_few_new_tokens_always_share_a_pass() -> None:
    assert [len(group) for group in passes(*[(1 + i % 8, 50) for i in range(500)])] == [500]


def test_a_long_sequence_does_not_make_the_short_ones_read_its_columns() -> None:
    long, short = (1, 4000), [(1, 50 + i) for i in range(8)]
    assert passes(long, *short) == [[long], sorted(short, reverse=True)]
    generous = PassLimits(max_tokens=256, free_padding=32, free_columns=1e6)
    assert len(passes(long, *short, limits=generous)) == 1


def test_everything_is_in_one_pass_exactly_once() -> None:
    given = work((1, 9), (300, 300), (40, 90), (2, 5000), (40, 40), (1, 1))
    taken = [each.index for group in in_passes(given, LIMITS) for each in group]
    assert sorted(taken) == list(range(6))
