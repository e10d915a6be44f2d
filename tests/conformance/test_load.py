"""Both forms of collections become the same cases."""

import pytest

from constrain.conformance.load import load_cases
from constrain.conformance.suite import remote_documents, remotes_beside
from constrain.errors import InvalidInputError


def test_the_suite_is_read_from_the_checkout_its_tests_a_draft_and_a_file(suite_folder):
    every = load_cases([suite_folder])
    assert [case.id for case in every] == [
        "draft7/not.json#0",
        "draft2020-12/optional/bignum.json#0",
        "draft2020-12/optional/format/ipv4.json#0",
        "draft2020-12/type.json#0",
        "draft2020-12/type.json#1",
    ]
    assert load_cases([suite_folder / "tests"]) == every
    assert load_cases([suite_folder / "tests/draft7"]) == every[:1]
    assert load_cases([suite_folder / "tests/draft2020-12/optional"]) == every[1:3]
    assert load_cases([suite_folder / "tests/draft2020-12/type.json"]) == every[3:]
    assert load_cases([suite_folder, suite_folder / "tests"]) == every  # nothing twice


def test_formats_are_asserted_where_the_file_says_so(suite_folder):
    cases = {case.id: case for case in load_cases([suite_folder])}
    formats = cases["draft2020-12/optional/format/ipv4.json#0"]
    assert formats.assert_formats and formats.collection == "draft2020-12, formats"
    assert formats.group == "optional/format/ipv4"
    required = cases["draft2020-12/type.json#0"]
    assert not required.assert_formats and required.collection == "draft2020-12, required"
    assert cases["draft7/not.json#0"].dialect == "draft7"


def test_remotes_lie_beside_the_tests(suite_folder):
    for path in ("", "tests", "tests/draft7", "tests/draft2020-12/type.json"):
        assert remotes_beside(suite_folder / path) == suite_folder / "remotes"
    documents = dict(remote_documents(suite_folder / "remotes"))
    assert documents == {"http://localhost:1234/integer.json": {"type": "integer"}}


def test_json_lines_are_read_from_a_file_and_a_folder(lines_file):
    cases = load_cases([lines_file])
    assert [(case.id, case.name, len(case.instances)) for case in cases] == [
        ("lines#1", "first", 2),
        ("lines#2", "second", 1),
    ]
    assert cases[1].schema == {"const": "a\u2028b"} and cases[1].assert_formats
    assert [case.id for case in load_cases([lines_file.parent])] == ["lines#1", "lines#2"]


def test_what_is_no_collection_is_refused_with_its_place(tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        load_cases([tmp_path / "absent"])
    with pytest.raises(InvalidInputError, match="neither drafts"):
        load_cases([tmp_path])
    (tmp_path / "bad.jsonl").write_text('{"schema": {}, "tests": []}\n{"name": 1}\n')
    with pytest.raises(InvalidInputError, match=r"bad\.jsonl, line 2"):
        load_cases([tmp_path])
    (tmp_path / "draft7").mkdir()
    (tmp_path / "draft7/x.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"x\.json"):
        load_cases([tmp_path])
