"""Numbers whose end no keyword refuses alone: what all together refuse, and the last bytes that one may have."""

import random

import pytest

from constrain.schema.evaluation import MAX_NUMBER_BYTES, Evaluator, compile_program


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


def _takes(evaluator, data):
    mark = evaluator.mark()
    taken = evaluator.feed(data)
    evaluator.undo(mark)
    return taken
