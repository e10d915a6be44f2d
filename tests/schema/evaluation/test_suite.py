"""The official test suite and a collection of schemas: the evaluator's verdicts are theirs, however the text is cut."""

import json

import pytest

from constrain.errors import ConstrainError
from constrain.schema import DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12, Validator
from constrain.schema.evaluation import Evaluator, Program, compile_program

from ..data import bench_cases, each_dialect, needs_bench, needs_suite, suite_cases, suite_documents

# Schemas of the suite that are refused by name: their meta-schema is their own, and leaves vocabularies out.
REFUSED = {DRAFT_4: 0, DRAFT_6: 0, DRAFT_7: 0, DRAFT_2019_09: 2, DRAFT_2020_12: 2}
# Of what no draft makes an assertion: contents, and `dependencies` after it was taken out (refused).
ONLY_ANNOTATED = ("content.json", "dependencies-compatibility.json")


def accepts(program: Program, text: bytes, step: int) -> bool:
    evaluator = Evaluator(program)
    pieces = (text[at : at + step] for at in range(0, len(text), step))
    return all(evaluator.feed(piece) for piece in pieces) and evaluator.can_end()


@needs_suite
@each_dialect
@pytest.mark.parametrize("optional", [False, True])
def test_every_verdict_of_the_official_suite(dialect, optional):
    wrong, refused = [], []
    for name, case in suite_cases(dialect, optional=optional):
        if name.startswith("optional/format") or any(file in name for file in ONLY_ANNOTATED):
            continue
        try:
            program = compile_program(case["schema"], documents=suite_documents(), dialect=dialect)
        except ConstrainError:
            refused.append(name)
            continue
        for test in case["tests"]:
            for text in {json.dumps(test["data"]), json.dumps(test["data"], ensure_ascii=False, indent=1)}:
                for step in (1, 4, len(text)):
                    if accepts(program, text.encode(), step) != test["valid"]:
                        wrong.append((name, test["description"], text, step))
    assert not wrong
    assert len(refused) == (0 if optional else REFUSED[dialect]), refused


def check_collection(cases):
    wrong = []
    for case in cases:
        try:
            program, asserted = compile_program(case["schema"], assert_formats=True), True
        except ConstrainError:
            try:
                program, asserted = compile_program(case["schema"]), False
            except ConstrainError as exc:
                assert "dependencies" in str(exc)
                continue
        validator = Validator(case["schema"], assert_formats=asserted)
        for number, test in enumerate(case["tests"]):
            text = json.dumps(test["data"])
            expected = test["valid"] if asserted else validator.error(text) is None
            if accepts(program, text.encode(), 4) != expected:
                wrong.append((case["name"], number))
    assert not wrong


@needs_bench
def test_a_part_of_the_collection_is_judged_as_labelled():
    check_collection(bench_cases()[::12])


@needs_bench
@pytest.mark.slow
def test_the_collection_is_judged_as_labelled():
    check_collection(bench_cases())
