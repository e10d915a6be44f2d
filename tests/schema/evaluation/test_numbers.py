"""Numbers whose end no keyword refuses alone: what all together refuse, and the last bytes that one may have."""

import json
import random

import pytest

from constrain.errors import InvalidValueError
from constrain.schema.evaluation import MAX_NUMBER_BYTES, Evaluator, compile_program
from constrain.schema.validate import validator_for


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "maximum": 20}, "152"),
        ({"type": "integer", "maximum": 20}, "0.21"),
        ({"type": "integer", "minimum": -20}, "-21"),
        ({"maximum": 2, "minimum": 1, "multipleOf": 0.5}, "3.3e"),
        ({"type": "integer", "maximum": 1000}, "0.12e1"),
        ({"not": {"multipleOf": 5}, "exclusiveMaximum": 50, "minimum": 1}, "500e-2"),
        ({"enum": [1, 0.5, 0]}, "1000.0E-2"),
        ({"maximum": 0, "not": {"enum": [0, 7]}}, "0e"),
    ],
)
def test_what_two_keywords_refuse_in_different_cases_is_refused(schema, text):
    evaluator = Evaluator(compile_program({"type": "number", **schema}))
    assert all(evaluator.feed(char.encode()) for char in text[:-1])
    assert not evaluator.feed(text[-1].encode())


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "maximum": 5}, "11e"),
        ({"type": "integer", "maximum": 5}, "0.21E+"),
        ({"multipleOf": 100, "exclusiveMaximum": 3, "exclusiveMinimum": 1, "type": "integer"}, "0.11e-0"),
    ],
)
def test_what_is_refused_byte_by_byte_is_refused_at_once(schema, text):
    program = compile_program({"type": "number", **schema})
    evaluator = Evaluator(program)
    assert not all(evaluator.feed(char.encode()) for char in text)
    assert not Evaluator(program).feed(text.encode())


@pytest.mark.parametrize("schema", [{"multipleOf": 123456789}, {"multipleOf": 0.123456789}, {"not": {"multipleOf": 1}}])
def test_whatever_digits_are_allowed_lead_to_an_end(schema):
    rng = random.Random(5)
    program = compile_program({"type": "integer", **schema} if "not" not in schema else {"type": "number", **schema})
    for start in ("7", "-12.", "9" * 980, "0." + "1" * 985):
        evaluator = Evaluator(program)
        evaluator.feed(start.encode())
        for _ in range(2 * MAX_NUMBER_BYTES):
            allowed = [char for char in b"0123456789.e-" if _takes(evaluator, bytes([char]))]
            if not allowed:
                break
            digits = [char for char in allowed if 48 <= char < 58]
            evaluator.feed(bytes([rng.choice(digits or allowed)]))
        assert evaluator.can_end(), (start, evaluator.scan_state().partial[-30:], len(evaluator.scan_state().partial))


LONG_NUMBER_SCHEMAS = [
    {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    {"not": {"type": "integer"}},
    {"multipleOf": 0.01},
    {"not": {"multipleOf": 7}},
    {"oneOf": [{"multipleOf": 5}, {"maximum": 10}]},
    {"type": "integer", "minimum": 1, "maximum": 1000},
    {"enum": [1, 0.5, 1200]},
]


@pytest.mark.parametrize("schema", LONG_NUMBER_SCHEMAS)
def test_numbers_as_long_as_they_may_be_are_judged_as_the_validator_does(schema):
    rng = random.Random(3)
    program, validator = compile_program(schema), validator_for(json.dumps(schema))
    judged = set()
    for _ in range(150):
        mantissa, mark = rng.choice(["1.5", "12", "0.0015", "0.7", "100", "1.20"]), rng.choice(["e", "e-", "E+", "E"])
        tail = rng.choice(["0", "1", "2", "12", "3", "04"])
        zeros = "0" * (rng.choice([40, 985, 998, 1000]) - len(mantissa + mark + tail))
        text = mantissa + mark + zeros + tail
        if rng.random() < 0.3:
            text = (mantissa if "." in mantissa else f"{mantissa}.") + zeros[1:] + mark + tail
        evaluator = Evaluator(program)
        pieces = [text[:-40], *text[-40:]]  # the last bytes one by one
        taken = all(evaluator.feed(piece.encode()) for piece in pieces) and evaluator.can_end()
        try:
            validator.check(text)
            valid = True
        except InvalidValueError:
            valid = False
        assert taken == valid, (text[:12], len(text), text[-12:])
        judged.add(valid)
    assert judged == {True, False}


def _takes(evaluator, data):
    mark = evaluator.mark()
    taken = evaluator.feed(data)
    evaluator.undo(mark)
    return taken
