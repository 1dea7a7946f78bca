from os import PathLike
from typing import Any

from flask_caching.backends.base import BaseCache

from . import Cache

class FirndexCache(BaseCache):
    key_prefix: str
    serializer: Any
    def __init__(
        self,
        path: str | PathLike[str],
        capacity: int | None = None,
        default_timeout: int = 300,
        key_prefix: str = "",
        ignore_delete_many_errors: bool = False,
        **options: Any,
    ) -> None: ...
    @property
    def cache(self) -> Cache: ...
