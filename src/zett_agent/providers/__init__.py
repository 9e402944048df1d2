"""Model providers. Names load on first use, so that importing this package loads no SDK."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

_MODULES = {
    "OpenAIProvider": "zett_agent.providers.openai",
    "ProviderAuthError": "zett_agent.exceptions",
    "ProviderError": "zett_agent.exceptions",
    "ProviderHTTPError": "zett_agent.exceptions",
    "ProviderRefusalError": "zett_agent.exceptions",
    "ProviderResponseError": "zett_agent.exceptions",
    "ProviderTimeoutError": "zett_agent.exceptions",
}
__all__ = (
    "OpenAIProvider",
    "ProviderAuthError",
    "ProviderError",
    "ProviderHTTPError",
    "ProviderRefusalError",
    "ProviderResponseError",
    "ProviderTimeoutError",
)

if TYPE_CHECKING:
    from zett_agent.exceptions import ProviderAuthError as ProviderAuthError
    from zett_agent.exceptions import ProviderError as ProviderError
    from zett_agent.exceptions import ProviderHTTPError as ProviderHTTPError
    from zett_agent.exceptions import ProviderRefusalError as ProviderRefusalError
    from zett_agent.exceptions import ProviderResponseError as ProviderResponseError
    from zett_agent.exceptions import ProviderTimeoutError as ProviderTimeoutError
    from zett_agent.providers.openai import OpenAIProvider as OpenAIProvider
else:
    # Type checkers see the imports above only: a module-level __getattr__ would make them accept any name.

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
