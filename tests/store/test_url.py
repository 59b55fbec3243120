"""A URL is shown without what is secret in it, and means a file or does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramify.errors import ConfigError
from ramify.store.open import open_store
from ramify.store.url import file_of, shown


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("walk.db", "walk.db"),
        ("memory:", "memory:"),
        ("sqlite:///a%20b.db", "sqlite:///a%20b.db"),
        ("postgresql://host/x", "postgresql://host/x"),
        ("postgresql://ann@host:5432/x", "postgresql://ann@host:5432/x"),
        ("postgresql://ann:s3cret@host:5432/x?ssl=1", "postgresql://ann:***@host:5432/x?ssl=1"),
        ("postgresql://ann:s3c@ret@host/x", "postgresql://ann:***@host/x"),
        ("redis://:s3cret@host/0", "redis://:***@host/0"),
        ("postgresql://host/x?user=ann&password=s3cret&a=b", "postgresql://host/x?user=ann&password=***&a=b"),
        ("postgresql://host/x?sslpassword=s3cret#s", "postgresql://host/x?sslpassword=***#s"),
        ("postgresql://ann:s3cret@[::1/x", "postgresql://***"),
    ],
)
def test_a_password_is_not_shown_and_the_rest_is(url: str, seen: str) -> None:
    assert shown(url) == seen


@pytest.mark.parametrize(
    "url",
    ["mysql://ann:s3cret@host/x", "postgresql://ann:s3cret@host/x", "sqlite://ann:s3cret@host", "x://u:s3cret@h\0"],
)
def test_an_error_does_not_tell_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_store(url)
    assert "s3cret" not in str(refusal.value)


def test_a_file_is_told_from_what_is_none() -> None:
    assert file_of("walk.db") == Path("walk.db")
    assert file_of("sqlite:///a%20b.db") == Path("a b.db")
    assert file_of("memory:") is None
    assert file_of("postgresql://host/x") is None
