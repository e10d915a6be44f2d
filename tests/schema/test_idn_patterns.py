"""Host names in Unicode: characters, what stands beside what, and the direction of writing."""

import re

import pytest

from constrain.schema.formats import checker_of
from constrain.schema.idn_patterns import idn_domain, idn_hostname

pytest.importorskip("idna")


@pytest.mark.parametrize(
    "text", ["a-b.c", "BÜCHER".lower(), "אב.a", "xn--bcher-kva", "l·l", "أ٠", "实例。测试", "A1.b"]
)
def test_what_is_a_host_name_matches(text):
    assert checker_of("idn-hostname")(text)
    assert re.fullmatch(idn_hostname(), text) and re.fullmatch(idn_domain(), text)


@pytest.mark.parametrize(
    "text",
    ["", "-a", "a-", "a..b", "ab--c", "\u0301a", "a·b", "·", "\u0375a", "1.א", "אa", "א٠1", "Ü", "a\u200d", "a_b"],
)
def test_what_is_none_for_these_reasons_does_not_match(text):
    assert not checker_of("idn-hostname")(text) and not re.fullmatch(idn_hostname(), text)


def test_a_domain_may_be_written_in_another_normal_form():
    assert re.fullmatch(idn_domain(), "e\u0301.실례") and not re.fullmatch(idn_domain(), "a b")
