"""Typed clients of steelyard's services: `from steelyard.client import HubClient`."""

from steelyard.client.calls import Answer, Page, Thing
from steelyard.client.errors import BadAddress, BadCredential, ClientError, Refused, StrangeAnswer, Unreachable
from steelyard.client.hub import HubClient

__all__ = [
    "Answer",
    "BadAddress",
    "BadCredential",
    "ClientError",
    "HubClient",
    "Page",
    "Refused",
    "StrangeAnswer",
    "Thing",
    "Unreachable",
]
