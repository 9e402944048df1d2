"""Blocking access to asynchronous objects: calls, streams and contexts on one portal."""

from __future__ import annotations

import os
import threading
import weakref
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from functools import partial, update_wrapper
from inspect import isasyncgenfunction, isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, cast, overload

from typing_extensions import TypeAliasType

from zett_agent._runtime.portal import Actor, Job, Portal

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")
Source = TypeAliasType("Source", AsyncIterable[T] | Awaitable[AsyncIterable[T]], type_params=(T,))


class SyncRuntime:
    """One daemon thread with an event loop, on which any number of other threads do asynchronous work.

    Blocking methods raise RuntimeError on that thread itself, where they would wait for ever, and once the runtime is
    closed. Work sees the caller's context variables, and Ctrl-C in a waiting thread cancels it. The end of the process
    waits for running work a few seconds at most. A forked child gets a thread of its own with its first call.
    """

    def __init__(self) -> None:
        self._portals: dict[int, Portal] = {}
        self._closed = False
        self.portal().start()
        weakref.finalize(self, _stop, self._portals).atexit = False

    def __enter__(self) -> Self:
        self.portal()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True after ``close()``."""
        return self._closed

    @overload
    def call(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` on the loop's thread, await what it returns if that can be awaited, and return the result.

        Raises what the function raises, and ``concurrent.futures.CancelledError`` when the runtime is closed meanwhile.
        """
        portal = self.portal()
        return portal.run(Job(partial(function, *args, **kwargs)), portal.begin)

    def stream(self, function: Callable[P, Source[T]], /, *args: P.args, **kwargs: P.kwargs) -> SyncStream[T]:
        """Iterate what ``function`` returns; it is called with the first ``next()``."""
        return SyncStream(self, partial(function, *args, **kwargs))

    def context(self, manager: AbstractAsyncContextManager[T]) -> SyncContext[T]:
        """``manager`` for a plain ``with``."""
        return SyncContext(self, manager)

    def wrap(self, wrapped: object) -> SyncObject:
        """``wrapped`` with methods that block."""
        return SyncObject(wrapped, runtime=self)

    def close(self) -> None:
        """Close open streams, cancel running calls, wait for both within a bound and end the thread; idempotent.

        Errors of streams that were closed here are raised as a BaseExceptionGroup.
        """
        self.refuse_own_thread()
        self._closed = True
        self._here().close()

    def refuse_own_thread(self) -> None:
        """RuntimeError on the loop's thread."""
        self._here().refuse_own_thread()

    def portal(self) -> Portal:
        """The portal of this process; RuntimeError when the runtime is closed."""
        if self._closed:
            raise RuntimeError("the SyncRuntime is closed")
        return self._here()

    def _here(self) -> Portal:
        pid = os.getpid()
        return self._portals.get(pid) or self._portals.setdefault(pid, Portal(pid))


def _stop(portals: dict[int, Portal]) -> None:
    for portal in tuple(portals.values()):
        portal.stop()


_END: Final = object()


class SyncStream(Generic[T]):
    """The items of an async iterator, one for each ``next()``; nothing runs before the first, none is fetched ahead.

    One thread at a time may wait for an item; a second one gets RuntimeError. ``close()``, the end of a ``with`` block,
    Ctrl-C and losing the last reference cancel what still runs. After that, and after an error, nothing follows.
    """

    def __init__(self, runtime: SyncRuntime, function: Callable[[], Source[T]]) -> None:
        self._runtime = runtime
        self._source = _Iteration(function)
        self._turn = threading.Lock()  # of the thread that waits for an item
        self._lock = threading.Lock()  # of the two fields below
        self._actor: Actor | None = None
        self._over = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if not self._turn.acquire(blocking=False):
            raise RuntimeError("another thread waits for the next item of this SyncStream already")
        try:
            item = self._next()
        finally:
            self._turn.release()
        if item is _END:
            raise StopIteration
        return cast(T, item)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream, from any thread, and wait until its cleanup is done; raises the cleanup's error, once."""
        self._runtime.refuse_own_thread()
        with self._lock:
            self._over = True
            actor, self._actor = self._actor, None
        if actor is None or self._runtime.closed:
            return
        try:
            actor.end()
        except (CancelledError, RuntimeError):
            if not self._runtime.closed:  # else another thread has closed it meanwhile, and with it this stream
                raise

    def _next(self) -> object:
        actor = self._begin()
        if actor is None:
            return _END
        try:
            item = actor.ask(self._source.next)
        except BaseException as error:
            if isinstance(error, CancelledError | RuntimeError) and (self._over or self._runtime.closed):
                return _END  # another thread has closed the stream, or the runtime
            self._finish(actor)
            raise
        if item is _END:
            self._finish(actor)
        return item

    def _begin(self) -> Actor | None:
        self._runtime.refuse_own_thread()
        with self._lock:
            if self._over or (self._actor is not None and self._runtime.closed):
                return None
            if self._actor is None:
                self._actor = Actor(self._runtime.portal(), self._source.close)
                weakref.finalize(self, self._actor.abandon).atexit = False
            return self._actor

    def _finish(self, actor: Actor) -> None:
        self._over = True
        actor.abandon()


class _Iteration(Generic[T]):
    """The async iterator behind a SyncStream; on the loop's thread."""

    __slots__ = ("_function", "_iterator")

    def __init__(self, function: Callable[[], Source[T]]) -> None:
        self._function = function
        self._iterator: AsyncIterator[T] | None = None

    async def next(self) -> object:
        """The next item, or _END."""
        if self._iterator is None:
            opened = self._function()
            self._iterator = aiter(await opened if isawaitable(opened) else opened)
        try:
            return await anext(self._iterator)
        except StopAsyncIteration:
            return _END

    async def close(self) -> None:
        """Close the iterator if it was opened and can be closed."""
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await close()


class SyncContext(Generic[T]):
    """An async context manager for a plain ``with``; one asyncio task enters and leaves it.

    The manager sees the error of the block and may suppress it. When the runtime is closed, or the last reference lost,
    within the block, the manager is left as by a cancelled one.
    """

    def __init__(self, runtime: SyncRuntime, manager: AbstractAsyncContextManager[T]) -> None:
        self._runtime = runtime
        self._manager = manager
        self._entry: tuple[Actor, _Entry[T]] | None = None

    def __enter__(self) -> T:
        if self._entry is not None:
            raise RuntimeError("this SyncContext is entered already")
        entry = _Entry(self._manager)
        actor = Actor(self._runtime.portal(), entry.finish)
        weakref.finalize(self, actor.abandon).atexit = False
        self._entry = actor, entry
        try:
            return actor.ask(entry.enter)
        except BaseException:
            self._entry = None
            actor.abandon()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._entry is None:
            raise RuntimeError("this SyncContext is not entered")
        (actor, entry), self._entry = self._entry, None
        if self._runtime.closed:
            return False  # the closing has left it
        try:
            return actor.ask(partial(entry.leave, kind, error, traceback))
        finally:
            actor.abandon()


class _Entry(Generic[T]):
    """One entering of an async context manager; on the loop's thread."""

    __slots__ = ("_entered", "_manager")

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._entered = False

    async def enter(self) -> T:
        """Enter the manager."""
        value = await self._manager.__aenter__()
        self._entered = True
        return value

    async def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Leave the manager; True when it suppresses ``error``."""
        self._entered = False
        return bool(await self._manager.__aexit__(kind, error, traceback))

    async def finish(self) -> None:
        """Leave the manager unless that was done."""
        if self._entered:
            await self.leave(AsyncCancelledError, AsyncCancelledError(), None)


class Passthrough(Generic[W]):
    """Base of objects whose unknown attributes are those of ``wrapped``, with methods that block.

    What a method returns decides: an async iterator becomes a SyncStream, an async context manager a SyncContext,
    anything else that can be awaited its result. A runtime that is not given is made, and closed after ``with``.
    """

    __slots__ = ("__weakref__", "_owned", "runtime", "wrapped")

    def __init__(self, wrapped: W, *, runtime: SyncRuntime | None = None) -> None:
        self.wrapped = wrapped
        self.runtime = runtime or SyncRuntime()
        self._owned = runtime is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wrapped!r})"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.wrapped)})

    if TYPE_CHECKING:
        # Checkers know only what a class itself names: the methods below would let them accept any misspelt name.
        wrapped: W
    else:

        def __getattr__(self, name: str) -> Any:
            if name in Passthrough.__slots__:
                raise AttributeError(name)  # a copy that has nothing yet asks for them
            value = getattr(self.wrapped, name)
            if not callable(value) or isinstance(value, type):
                return value
            return update_wrapper(partial(blocking, self.runtime, value), value, updated=())

        def __setattr__(self, name: str, value: Any) -> None:
            if hasattr(type(self), name):
                object.__setattr__(self, name, value)
            else:
                setattr(self.wrapped, name, value)

        def __delattr__(self, name: str) -> None:
            delattr(self.wrapped, name)


class SyncObject(Passthrough[Any]):
    """Any asynchronous object with methods that block; see ``Passthrough`` for what becomes of their results."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __delattr__(self, name: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._owned:
            self.runtime.close()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped object."""
        return blocking(self.runtime, self.wrapped, *args, **kwargs)


def blocking(runtime: SyncRuntime, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` on the loop's thread and give its result the shape that blocking code can use."""
    if isasyncgenfunction(function):
        return runtime.stream(function, *args, **kwargs)
    result, awaited = runtime.call(_result, function, args, kwargs)
    if not awaited and isinstance(result, AsyncIterator):
        return runtime.stream(lambda: result)
    if not awaited and isinstance(result, AbstractAsyncContextManager):
        return runtime.context(result)
    return result


async def _result(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
    value = function(*args, **kwargs)
    if isinstance(value, AsyncIterator | AbstractAsyncContextManager) or not isawaitable(value):
        return value, False
    return await value, True
