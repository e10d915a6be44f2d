"""The public names: all there, documented, and nothing else by accident."""

import inspect
from pathlib import Path

import constrain

NAMES = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in constrain.__all__:
        value = getattr(constrain, name)
        assert inspect.getdoc(value), f"{name} has no docstring"
        assert value.__module__.startswith("constrain"), f"{name} is not ours"


def test_public_methods_have_docstrings() -> None:
    for name in constrain.__all__:
        value = getattr(constrain, name)
        if not inspect.isclass(value):
            continue
        for method_name, method in vars(value).items():
            if not method_name.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
                assert inspect.getdoc(getattr(value, method_name)), f"{name}.{method_name} has no docstring"


def test_all_is_sorted_and_unique() -> None:
    assert constrain.__all__ == sorted(set(constrain.__all__))


def test_the_changelog_names_every_public_name() -> None:
    missing = [name for name in constrain.__all__ if f"`{name}" not in NAMES]
    assert not missing, f"CHANGELOG.md does not mention {missing}"


def test_errors_form_one_tree_and_callers_mistakes_are_value_errors() -> None:
    errors = [getattr(constrain, name) for name in constrain.__all__ if name.endswith("Error")]
    assert len(errors) > 10
    assert all(issubclass(error, constrain.ConstrainError) for error in errors)
    assert issubclass(constrain.InvalidInputError, ValueError)


def test_unknown_attributes_are_attribute_errors() -> None:
    assert not hasattr(constrain, "nothing_of_this_name")
    assert set(constrain.__all__) <= set(dir(constrain))
