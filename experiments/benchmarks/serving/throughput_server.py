"""A chat server that keeps nothing and always says the same, after a fixed time.

    python -m experiments.benchmarks.serving.throughput_server LATENCY_MS

Its address is the first line that it prints.
"""

from __future__ import annotations

import asyncio
import sys

import orjson
from aiohttp import web

MODEL = "loopback"
TEXT = '{"answer": "Paris"}'
CHAT = "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"
USAGE = {"prompt_tokens": 900, "completion_tokens": 9, "total_tokens": 909}


def body(text: str) -> bytes:
    """A chat completion that says `text`."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    completion = {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
    return orjson.dumps({**completion, "usage": USAGE})


async def serve(latency_s: float) -> None:
    """Answer until the process ends. A request that asks for DSPy's sections is answered in them."""
    plain, sections = body(TEXT), body(CHAT)

    async def complete(request: web.Request) -> web.Response:
        reply = sections if b"[[ ## answer ## ]]" in await request.read() else plain
        if latency_s:
            await asyncio.sleep(latency_s)
        return web.Response(body=reply, content_type="application/json")

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "max_model_len": 32768}]})

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
