"""The codec: arguments and results as bytes and back, by annotation. Callers need `Signature`, and those who choose
parameters `annotations_of`.

signature   one function: encode and decode its calls and results
parameters  what its annotations say          forms     arguments by position or by name
proofs      what the fast path may skip       wire      encode, decode, compare
escape      lone surrogates                   limits    size, depth, integers
refusal     the words of a refusal            identity  when two calls are the same
referring   arguments that are results of other calls
"""

from ramify.model.codec.parameters import annotations_of
from ramify.model.codec.signature import Refers, Signature

__all__ = ["Refers", "Signature", "annotations_of"]
