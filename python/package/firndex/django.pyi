from collections.abc import Mapping
from os import PathLike
from typing import Any

from django.core.cache.backends.base import BaseCache

from . import Cache

class FirndexCache(BaseCache):
    def __init__(self, location: str | PathLike[str], params: Mapping[str, Any]) -> None: ...
    @property
    def cache(self) -> Cache: ...
