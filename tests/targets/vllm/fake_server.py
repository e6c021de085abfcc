"""A stand-in for vLLM's server, written into a folder as the module that `python -m` finds; it has one model.

`--die WORDS` ends with an error while it starts, `--never` never becomes healthy, and a prompt that says
`die` ends it at once.
"""

from __future__ import annotations

from pathlib import Path

SOURCE = """
import argparse, http.server, json, os, sys, time

parser = argparse.ArgumentParser(prog="api_server.py")
for name in ("host", "model", "dtype", "die"):
    parser.add_argument("--" + name)
parser.add_argument("--port", type=int)
parser.add_argument("--max-model-len", type=int, default=512)
parser.add_argument("--names", nargs="*")
parser.add_argument("--never", action="store_true")
given = parser.parse_args()
print("INFO 11-21 19:14:24 [core.py:133] Loading", given.model, flush=True)
if given.die:
    print("(EngineCore pid=12) ERROR 11-21 19:14:57 [core.py:9] ValueError:", given.die, file=sys.stderr)
    raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path == "/health":
            return self.say({}, 503 if given.never else 200)
        if self.path == "/metrics":
            return self.say("vllm:prefix_cache_queries_total 10.0\\nvllm:prefix_cache_hits_total 4.0\\n")
        self.say({"data": [{"id": given.model, "owned_by": "vllm", "max_model_len": given.max_model_len}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["messages"][0]["content"] == "die":
            print("torch.OutOfMemoryError: no room for the cache", file=sys.stderr, flush=True)
            os._exit(7)
        text = json.dumps({"pid": os.getpid(), "args": sys.argv[1:]})
        self.say({"choices": [{"message": {"content": text}}]})

    def say(self, body, status=200):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

http.server.ThreadingHTTPServer((given.host, given.port), Handler).serve_forever()
"""


def write(folder: Path) -> Path:
    """A folder that, on PYTHONPATH, brings the stand-in."""
    module = folder / "vllm" / "entrypoints" / "openai"
    module.mkdir(parents=True)
    for package in (folder / "vllm", folder / "vllm" / "entrypoints", module):
        (package / "__init__.py").write_text("")
    (module / "api_server.py").write_text(SOURCE)
    return folder
