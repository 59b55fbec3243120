"""The codec: arguments and results as bytes and back, by annotation. Callers need `Signature`, and those who choose
parameters `annotations_of`.

signature   one function: encode and decode its calls and results
parameters  what its annotations say          forms     arguments by position or by name
proofs      what the fast path may skip       wire      encode, decode, compare
escape      lone surrogates                   limits    size, depth, integers
refusal     the words of a refusal            identity  when two calls are the same
"""

from ramify.model.codec.parameters import annotations_of
from ramify.model.codec.signature import Signature

__all__ = ["Signature", "annotations_of"]
