"""What the beginning of a number proves, against every way to go on that is tried."""

import random
from decimal import Decimal

import pytest

from constrain.schema.evaluation import Evaluator, Verdict, compile_program

SCHEMAS = [
    {"type": "integer"}, {"minimum": 0}, {"maximum": 20}, {"exclusiveMinimum": -7.5}, {"exclusiveMaximum": 0},
    {"multipleOf": 3}, {"multipleOf": 2.5}, {"multipleOf": 0.01}, {"enum": [1, 20, -0.5, 0]},
    {"type": "integer", "minimum": 5, "not": {"multipleOf": 12}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("negated", [False, True])
def test_no_number_contradicts_what_its_beginning_has_proved(schema, negated):
    rng = random.Random(3)
    program = compile_program({"type": "number", "not": schema} if negated else {"type": "number", **schema})
    for _ in range(800):
        sign, whole = rng.choice(["", "-"]), rng.choice(["0", "1", "5", "12", "20", "75"])
        fraction = rng.choice(["", ".0", ".5", ".25", ".00"])
        exponent = rng.choice(["", "e0", "e1", "E+02", "e-1", "e-03", "e7"])
        text = sign + whole + fraction + exponent
        whole_evaluator = Evaluator(program)
        valid = whole_evaluator.feed(text.encode()) and whole_evaluator.can_end()
        evaluator = Evaluator(program)
        for byte in text.encode():
            evaluator.feed(bytes([byte]))
            assert evaluator.verdict != (Verdict.FALSE if valid else Verdict.TRUE), (schema, text)
        assert valid == (_holds(schema, Decimal(text)) != negated), (schema, text)


def _holds(schema, value):
    tests = {
        "type": lambda _: value == int(value),
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "exclusiveMinimum": lambda bound: value > Decimal(str(bound)),
        "exclusiveMaximum": lambda bound: value < bound,
        "multipleOf": lambda unit: value % Decimal(str(unit)) == 0,
        "enum": lambda values: value in [Decimal(str(item)) for item in values],
        "not": lambda inner: not _holds(inner, value),
    }
    return all(tests[keyword](argument) for keyword, argument in schema.items())


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"not": {"type": "integer"}}, "10.1e1"),
        ({"not": {"type": "integer"}}, "0e"),
        ({"type": "integer"}, "15e-1"),
        ({"maximum": 20}, "1.0E3"),
        ({"minimum": 0}, "-5"),
        ({"minimum": 5}, "1e-"),
        ({"multipleOf": 3}, "1e"),
        ({"enum": [1, 20]}, "2e+5"),
    ],
)
def test_a_number_that_can_only_go_wrong_is_refused_where_that_shows(schema, text):
    evaluator = Evaluator(compile_program(schema))
    assert evaluator.feed(text[:-1].encode()) and not evaluator.feed(text[-1:].encode())
