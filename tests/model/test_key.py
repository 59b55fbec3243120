"""Keys are found by a digest of scope and text."""

from hashlib import sha256

import pytest

from ramify.errors import BadPayload
from ramify.model.event import Status
from ramify.model.key import HASH, Hold, digest, digests, end_of, kept_until, key_bytes, looked_at, scope
from ramify.model.task import MAX_KEEP, NewTasks, check_tasks


def test_labels_and_once_are_scoped_to_run_and_kind() -> None:
    for hold in (Hold.LABEL, Hold.ONCE):
        assert digest(hold, 1, "a", b"k") != digest(hold, 2, "a", b"k")
        assert digest(hold, 1, "a", b"k") != digest(hold, 1, "b", b"k")


def test_unique_keys_are_scoped_to_the_kind_across_runs() -> None:
    assert digest(Hold.UNIQUE, 1, "a", b"k") == digest(Hold.UNIQUE, 2, "a", b"k")
    assert digest(Hold.UNIQUE, 1, "a", b"k") != digest(Hold.UNIQUE, 1, "b", b"k")


def test_no_two_holds_share_a_name() -> None:
    assert len({digest(hold, 1, "a", b"k") for hold in Hold}) == len(Hold)


def test_scope_and_text_cannot_be_shifted_into_each_other() -> None:
    assert digest(Hold.ONCE, 1, "a", b"b\0c") != digest(Hold.ONCE, 1, "a/b", b"c")
    assert digests(Hold.ONCE, 1, "a", [b"k", b""]) == [digest(Hold.ONCE, 1, "a", key) for key in (b"k", b"")]
    assert HASH == 16
    assert {len(digest(hold, 300, "a", b"")) - len(scope(hold, 300)) for hold in Hold} == {HASH}


def test_the_digests_of_a_run_are_one_range_with_nobody_elses_in_it() -> None:
    runs = [1, 2, 127, 128, 255, 256, 257, 65_535, 65_536, 2**32, 2**62 - 1, 2**63 - 1]
    named = {
        digest(hold, run, "a", b"%d" % n): run for run in runs for n in range(20) for hold in (Hold.ONCE, Hold.LABEL)
    }
    across = [digest(Hold.UNIQUE, run, "a", b"k") for run in runs]
    for run in runs:
        begin = scope(Hold.ONCE, run)
        end = end_of(begin)
        assert {name for name in (*named, *across) if begin <= name < end} == {
            n for n, own in named.items() if own == run
        }
        assert all(name[:-HASH] == begin for name, own in named.items() if own == run)
        # Also a digest of nothing but ones, which nobody can make on purpose.
        assert begin + b"\xff" * HASH < end


def test_a_digest_is_the_beginning_of_a_sha_256_that_any_store_can_work_out() -> None:
    for hold, begin in ((Hold.ONCE, b"\x02\x01\x2c"), (Hold.LABEL, b"\x02\x01\x2c"), (Hold.UNIQUE, b"\x00")):
        hashed = sha256(b"%d/%b/page\0/a" % (hold, begin)).digest()
        assert digest(hold, 300, "page", b"/a") == begin + hashed[:16]


def test_a_file_name_that_is_not_text_can_be_a_key() -> None:
    assert key_bytes("caf\udce9") != key_bytes("café")


def test_a_key_is_kept_for_a_while_after_success_and_freed_by_every_other_end() -> None:
    assert kept_until(60, Status.DONE, now=1_000) == 1_060
    assert kept_until(0, Status.DONE, now=1_000) == 1_000
    for end in (Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED):
        assert kept_until(60, end, now=1_000) == 1_000


def test_who_comes_again_finds_only_keys_that_are_not_about_to_expire() -> None:
    assert looked_at(1_000, again=False) == 1_000
    assert looked_at(1_000, again=True) > 1_000 + MAX_KEEP


def test_no_store_is_asked_to_keep_a_key_beyond_what_a_number_holds() -> None:
    check_tasks(NewTasks(1, "walk", [b""], keys=[b"k"], hold=Hold.UNIQUE, keep=MAX_KEEP))
    for keep in (-1, MAX_KEEP + 1):
        with pytest.raises(BadPayload, match="keep="):
            check_tasks(NewTasks(1, "walk", [b""], keys=[b"k"], hold=Hold.UNIQUE, keep=keep))
