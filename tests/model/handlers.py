"""Functions to try the codec on, and what is asked of them again and again."""

from typing import Any

import pytest

from ramify.errors import BadPayload
from ramify.model.codec import Signature


def taking(annotation: Any) -> Signature:
    """A function of one parameter `x` with this annotation, which is also that of its result."""

    def handler(x: Any) -> Any: ...

    handler.__annotations__ = {"x": annotation, "return": annotation}
    return Signature.of(handler)


def there_and_back(signature: Signature, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return signature.decode(signature.encode(args, kwargs))


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refusal(annotation: Any, value: Any) -> str:
    """The text with which an argument is refused; a result must be refused for the same reason."""
    signature = taking(annotation)
    with pytest.raises(BadPayload) as argument:
        signature.encode((value,), {})
    with pytest.raises(BadPayload) as result:
        signature.encode_result(value)
    text = str(argument.value)
    assert text.startswith("handler(): `x")
    assert str(result.value) == text.replace("`x", "`return value")
    return text
