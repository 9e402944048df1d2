"""Model providers. Names load on first use, so that importing this package loads no SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zett_agent._lazy import lazy_names

_NAMES = {
    "openai": "OpenAIProvider",
    "zett_agent.exceptions": (
        "ProviderAuthError ProviderError ProviderHTTPError ProviderRefusalError ProviderResponseError "
        "ProviderTimeoutError"
    ),
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
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
