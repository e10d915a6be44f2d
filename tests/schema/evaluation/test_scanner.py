"""What counts as JSON: RFC 8259 without repeated names, and no text that Python's reader would not read alike."""

import json
import random

import pytest

from constrain.schema.evaluation import MAX_DEPTH, Evaluator, Mode, compile_program
from constrain.schema.json_text import unique_keys

EVERYTHING = compile_program(True)


def is_read(text: bytes, step: int = 1) -> bool:
    evaluator = Evaluator(EVERYTHING)
    return all(evaluator.feed(text[at : at + step]) for at in range(0, len(text), step)) and evaluator.can_end()


def is_json(text: bytes) -> bool:
    try:
        value = json.loads(text.decode(), object_pairs_hook=unique_keys, parse_constant=lambda name: 1 / 0)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, ZeroDivisionError):
        return False
    return True


TEXTS = [
    '{"a": [1, -2.5e-3, true, {"b": null}], "é😀": "\\ud83d\\ude00\\u00e9\\n\\/", "": false}',
    "[]", "{}", '""', "0", "-1.0E+7",
    '  [ "a" , { } ]  ', "null", '[[[[{"x":[0]}]]]]',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_json_is_read_however_it_is_cut(text, step):
    assert is_json(text.encode()) and is_read(text.encode(), step)


def test_damaged_texts_are_judged_as_by_pythons_reader():
    rng = random.Random(0)
    alphabet = bytes(range(0x20, 0x7F)) + b'""\\\\,,::[]{}00\x01\n\xc3\xa9\xed\xa0\x80\xff'
    for _ in range(6000):
        damaged = bytearray(rng.choice(TEXTS).encode())
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(damaged))
            change = rng.choice(["cut", "put", "swap"])
            if change == "cut" and len(damaged) > 1:
                del damaged[at]
            elif change == "put":
                damaged.insert(at, rng.choice(alphabet))
            else:
                damaged[at] = rng.choice(alphabet)
        text = bytes(damaged)
        assert is_read(text, rng.randint(1, 4)) == is_json(text), text


def test_a_repeated_name_is_refused_at_its_quote_however_it_is_written():
    evaluator = Evaluator(EVERYTHING)
    assert evaluator.feed(b'{"ab": 1, "\\u0061b')
    assert not evaluator.feed(b'"')


@pytest.mark.parametrize(
    "text", [b'"\xed\xa0', b'"\xc0', b'"\xf4\x90', b'"\\ud800a', b'"\\udc', b"01", b"1.e", b"tru ", b"+"]
)
def test_what_can_become_no_json_is_refused_at_the_byte_that_shows_it(text):
    evaluator = Evaluator(EVERYTHING)
    assert len(text) == 1 or evaluator.feed(text[:-1])
    assert not evaluator.feed(text[-1:])


def test_depth_and_digits_are_bounded():
    assert is_read(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) and not is_read(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert is_read(b"1" * 1000) and not is_read(b"1" * 1001)
    assert is_read(b"1e999999999") and not is_read(b"1e1000000000")


def test_the_state_of_the_scan_says_what_can_follow():
    evaluator = Evaluator(EVERYTHING)
    assert evaluator.scan_state() == (Mode.VALUE, "", b"")
    evaluator.feed(b'{"a": [1, "x\\u00')
    assert evaluator.scan_state() == (Mode.IN_STRING, "array", b"\\u00")
    evaluator.feed(b'e9", -1')
    assert evaluator.scan_state() == (Mode.IN_NUMBER, "array", b"-1")
    evaluator.feed(b"], ")
    assert evaluator.scan_state() == (Mode.NAME, "object", b"")


def test_the_starts_of_what_is_open():
    evaluator = Evaluator(EVERYTHING)
    evaluator.feed(b'{"a":1,')
    assert evaluator.value_starts() == [0]
    evaluator.feed(b' "b')
    assert evaluator.value_starts() == [0, 8, 8]
    evaluator.feed(b'c":')
    assert evaluator.value_starts() == [0, 8]
    evaluator.feed(b' ["x')
    assert evaluator.value_starts() == [0, 8, 14, 15]
    evaluator.feed(b'"]')
    assert evaluator.value_starts() == [0]
