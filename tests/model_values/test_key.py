"""Keys are found by a digest of scope and text."""

from ramify.model.key import Hold, digest, digests, key_bytes


def test_labels_and_once_are_scoped_to_run_and_kind() -> None:
    for hold in (Hold.LABEL, Hold.ONCE):
        assert digest(hold, 1, "a", b"k") != digest(hold, 2, "a", b"k")
        assert digest(hold, 1, "a", b"k") != digest(hold, 1, "b", b"k")


def test_unique_and_job_keys_are_scoped_to_the_kind_across_runs() -> None:
    for hold in (Hold.UNIQUE, Hold.JOB):
        assert digest(hold, 1, "a", b"k") == digest(hold, 2, "a", b"k")
        assert digest(hold, 1, "a", b"k") != digest(hold, 1, "b", b"k")


def test_no_two_holds_share_a_name() -> None:
    assert len({digest(hold, 1, "a", b"k") for hold in Hold}) == len(Hold)


def test_scope_and_text_cannot_be_shifted_into_each_other() -> None:
    assert digest(Hold.ONCE, 1, "a", b"b\0c") != digest(Hold.ONCE, 1, "a/b", b"c")
    assert digests(Hold.ONCE, 1, "a", [b"k", b""]) == [digest(Hold.ONCE, 1, "a", key) for key in (b"k", b"")]
    assert len(digest(Hold.ONCE, 1, "a", b"")) == 16


def test_a_file_name_that_is_not_text_can_be_a_key() -> None:
    assert key_bytes("caf\udce9") != key_bytes("café")
