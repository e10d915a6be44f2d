"""Random schemas and instances, cut at every byte, against the exact validator."""

import json
import random

import pytest

from constrain.errors import ConstrainError
from constrain.schema import Validator
from constrain.schema.evaluation import Evaluator, Verdict, compile_program
from constrain.schema.evaluation.program import Spec

from ..random_schemas import instances, random_schema

INSTANCES = instances()
JUNK = [b'"', b"a", b'a"', b"}", b"]", b",", b'{"a":', b"1", b"-", b"[", b'","b":1', b"\\u00", b"\xc3", b"null", b" "]


def program_and_validator(rng, negated):
    while True:
        schema = random_schema(rng, 3)
        if negated:
            schema = {"not": schema}
        try:
            return compile_program(schema), Validator(schema), schema
        except ConstrainError:
            continue


def written(rng, instance):
    """The instance as text: its properties in any order, its strings escaped or not, blanks or none."""
    if isinstance(instance, dict):
        names = rng.sample(list(instance), len(instance))
        return "{" + ",".join(f"{written(rng, name)}:{written(rng, instance[name])}" for name in names) + "}"
    if isinstance(instance, list):
        return "[" + ", ".join(written(rng, item) for item in instance) + "]"
    if isinstance(instance, str) and rng.random() < 0.3:
        return '"' + "".join(f"\\u{ord(character):04x}" for character in instance) + '"'
    if isinstance(instance, int) and not isinstance(instance, bool) and instance and rng.random() < 0.3:
        return rng.choice([f"{instance}.0", f"{instance}0e-1", f"{instance}E+0"])
    return json.dumps(instance)


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_verdict_is_given_that_a_completion_contradicts(seed, negated):
    """A text is a completion of each of its prefixes: a valid one must have none that is false, and vice versa."""
    rng = random.Random(seed)
    for _ in range(250):
        program, validator, schema = program_and_validator(rng, negated)
        for instance in rng.sample(INSTANCES, 20):
            text = written(rng, instance)
            valid = validator.error(text) is None
            evaluator = Evaluator(program)
            for byte in text.encode():
                evaluator.feed(bytes([byte]))
                contradicted = Verdict.FALSE if valid else Verdict.TRUE
                assert evaluator.verdict != contradicted, (schema, text, evaluator.offset)
            assert evaluator.can_end() == valid, (schema, text)
            if text[-1] in '}]"e':
                assert evaluator.verdict == (Verdict.TRUE if valid else Verdict.FALSE), (schema, text)


def test_what_is_tried_and_undone_leaves_no_trace():
    rng = random.Random(5)
    for _ in range(300):
        program, validator, schema = program_and_validator(rng, False)
        text = written(rng, rng.choice(INSTANCES)).encode()
        evaluator = Evaluator(program)
        for at in range(len(text)):
            mark, before = evaluator.mark(), snapshot(evaluator)
            for junk in rng.sample(JUNK, 3):
                evaluator.feed(junk)
                evaluator.feed(rng.choice(JUNK))
                evaluator.undo(mark)
                assert snapshot(evaluator) == before, (schema, text[:at], junk)
            evaluator.feed(text[at : at + 1])
        assert evaluator.can_end() == (validator.error(text.decode()) is None)
        evaluator.undo(0)
        assert snapshot(evaluator) == snapshot(Evaluator(program))


def test_a_fork_goes_its_own_way():
    rng = random.Random(6)
    for _ in range(100):
        program, validator, _ = program_and_validator(rng, False)
        text = written(rng, rng.choice(INSTANCES)).encode()
        evaluator = Evaluator(program)
        cut = rng.randrange(len(text))
        evaluator.feed(text[:cut])
        fork = evaluator.fork()
        assert snapshot(fork) == snapshot(evaluator)
        evaluator.feed(rng.choice(JUNK))
        fork.feed(text[cut:])
        assert fork.can_end() == (validator.error(text.decode()) is None)


def snapshot(evaluator):
    frames = [
        (
            frame.plan.kind,
            frame.status,
            frame.pending,
            frame.counters,
            list(map(plain, frame.fields)),
            frame.states,
            frame.seen,
        )
        for frame in evaluator._frames()
    ]
    return repr((evaluator.scan_state(), evaluator.offset, evaluator.verdict, evaluator.value_starts(), frames))


def plain(field):
    return id(field) if isinstance(field, Spec) else field
