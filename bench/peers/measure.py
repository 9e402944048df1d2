"""``python -m bench.peers.measure NAME``: measures one peer beside the bare loop and prints what it found as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any

from bench import workloads as w
from bench.measure import Comparison, Work, compare
from bench.peers.common import Request, Runtime, Script, check, seal

ROUNDS = 15
#: What one measured round lasts at least.
ROUND_SECONDS = 0.02

SCRIPTS = {
    "turn": Script(tuple(w.pieces(10))),
    "tool": Script(tuple(w.pieces(1)), calls=1),
    "batch": Script(tuple(w.pieces(1)), calls=50),
    "delta": Script(tuple(w.pieces(10_000))),
}


def _work(request: Request) -> Work:
    async def work() -> None:
        await request(None)

    return work


async def _times(work: Work) -> int:
    await work()
    start = time.process_time()
    await work()
    return max(1, int(ROUND_SECONDS / max(time.process_time() - start, 1e-6)))


async def _measure(peer: Runtime, name: str) -> Comparison:
    script, scenario = SCRIPTS[name], w.scenarios()[name]
    request = await peer.fresh(script)
    await check(peer, request, script)
    work, bare = _work(request), w.bare(scenario.model)
    times = await _times(work)
    return await compare(work, bare, times=times, yardstick_times=await _times(bare), rounds=ROUNDS, may_wait=True)


async def _measure_long(peer: Runtime) -> Comparison:
    script = SCRIPTS["turn"]
    long, short = await peer.after(2_000, script), await peer.after(20, script)
    await peer.prepare()
    await check(peer, long, script)
    await check(peer, short, script)
    times = [peer.round_of or await _times(_work(request)) for request in (long, short)]
    return await compare(
        _work(long),
        _work(short),
        times=times[0],
        yardstick_times=times[1],
        rounds=2 * ROUNDS if peer.round_of else ROUNDS,
        prepare=peer.prepare,
        may_wait=True,
    )


async def measure(name: str) -> dict[str, Any]:
    """Every figure of one peer; what it cannot do has the reason in the place of figures."""
    module = import_module(f"bench.peers.{name}")
    peer: Runtime = module.Peer()
    gc.collect()
    gc.freeze()  # else the bare loop pays for collections that walk through all that the peer has imported
    found: dict[str, Any] = {
        "versions": {package: version(package) for package in module.PACKAGES},
        "note": module.NOTE,
    }
    for work in (*SCRIPTS, "long"):
        try:
            result = await (_measure_long(peer) if work == "long" else _measure(peer, work))
        except Exception as error:
            found[work] = {"reason": f"{type(error).__name__}: {error}"}
        else:
            found[work] = {"ratio": result.ratio, "seconds": result.seconds, "bare": result.yardstick}
    return found


def main() -> None:
    """The last line of standard output is the JSON."""
    seal()
    logging.disable(logging.WARNING)
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))


if __name__ == "__main__":
    main()
