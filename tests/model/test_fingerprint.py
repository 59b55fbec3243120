"""Errors that are alike look alike once what differs between them is folded; others stay apart."""

import tracemalloc
from time import perf_counter

import pytest

from ramify.model.fingerprint import LONGEST, fingerprint
from ramify.model.outcome import Failure
from ramify.store.error_groups import MOST_GROUPS, group_errors


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        ("it's a dog's life", "it's a dog's life"),
        ("row 7: -3.5 is less than 0", "row #: # is less than #"),
        ("no answer from 10.0.0.1:8080 at 2026-01-05T10:11:12Z", "no answer from # at #"),
        ("[Errno 2] No such file or directory: '/tmp/a b.txt'", "[Errno #] No such file or directory: '…'"),
        ('no key "ann", can\'t go on', "no key '…', can't go on"),
        ("cannot read /srv/in/a.csv: empty", "cannot read <path>: empty"),
        ("cannot read data/in/a.csv, C:\\x\\y.csv or ~/z", "cannot read <path>, <path> or <path>"),
        ("https://example.org/a?b=c answered 404", "<address> answered #"),
        ("<Page object at 0x7f9e12ab> of order 12-ab34 is gone", "<Page object at #> of order # is gone"),
        ("job 123e4567-eabc-cdef-a456-426614174000 and deadbeefcafe", "job # and #"),
        ("user_42 is not tenant7", "# is not #"),
    ],
)
def test_what_differs_from_case_to_case_is_folded(text: str, folded: str) -> None:
    assert fingerprint(text) == folded


def test_a_fingerprint_is_short_however_long_the_text() -> None:
    assert len(fingerprint("word " * 1_000)) == LONGEST


@pytest.mark.parametrize(
    "piece", ["a", "'", "/", "a/", "a.", "1-", "a-", "\\a", "../", "http", "_", "é", "a1:", '"', "`x"]
)
def test_no_text_takes_longer_than_its_length_warrants(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = perf_counter()
        fingerprint(text)
        return perf_counter() - began

    # Were it quadratic, a hundred times the length would take ten thousand times as long.
    assert seconds(200_000) < 2_000 * max(min(seconds(2_000) for _ in range(5)), 0.0001)


def test_memory_is_bounded_however_many_errors_differ() -> None:
    count = 3_000
    texts = (f"{'x' * (i // 26)}{chr(97 + i % 26)} {'y' * 1_900}" for i in range(count))
    failures = ((i, "walk", Failure("E", text).encode(), i) for i, text in enumerate(texts))
    tracemalloc.start()
    summary = group_errors(failures)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(summary.groups) == MOST_GROUPS
    assert sum(group.count for group in summary.groups) + summary.others == count
    assert peak < 4_000_000
