"""OpenAI's chat completions: one body builder, one reply reader, one table of failures."""

from __future__ import annotations

import json
import math
import re
import reprlib
import string
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson

from ragc.core.redact import shorten
from ragc.core.text import repair_surrogates
from ragc.errors import RequestRefused, TargetStopped
from ragc.targets.base import (
    MIN_LOGPROB,
    MOST_TOKENS,
    ChatRequest,
    Count,
    Finish,
    Reply,
    TokenLogprob,
    Usage,
)
from ragc.targets.reasoning import take_off
from ragc.targets.retry import Again

MOST_BYTES = 2**16
"""Bytes of an error's body that are read."""

_TOO_LONG = re.compile(
    r"(?i)context[-_ ]?(?:length|window|size|limit)|\bn_ctx\b|exceed\w*[^.]{0,40}\bcontext\b"
    r"|max(?:imum)?[-_ ](?:context|prompt|input|model|seq|sequence)[-_ ]len"
    r"|(?:prompt|input)\S*(?: \([^)]*\))? (?:is |are |was )?(?:too (?:long|large)|longer than)"
    r"|(?:prompt|input)[-_ ](?:length|tokens?|size)[^.]{0,60}\b(?:exceed|greater than|longer than)"
    r"|too many (?:input |prompt )?tokens|token (?:count|limit)[^.]{0,60}exceed"
    r"|exceed\w* (?:model )?token limit|tokens_limit_reached|max size: \d+ tokens|max_new_tokens"
    r"|must have less than \d+ tokens|reduce the length|range of input length|string_above_max_length"
    r"|max length exceeded|max_tokens must be at least 1, got -"
)
"""That a prompt does not fit, as OpenAI, vLLM, llama.cpp, Ollama, TGI, SGLang, LM Studio say it."""

_REPLY_LIMIT = re.compile(r"(?i)max_tokens\W{0,3} must be less than or equal")
"""That `max_tokens` is too large, whatever the prompt."""

_FILTERED = re.compile(
    r"(?i)content[-_ ]?(?:filter|policy|management|moderation)|content exists risk|responsible ?ai"
    r"|\bmoderation\b|\bflagged\b|safety (?:system|check|filter)|_safety|prohibited_content"
    r"|\binvalid_prompt\b|usage (?:polic|guidelin)|sensitive (?:content|words)|inappropriate content"
    r"|data_inspection|considered high risk|guardrail"
)
"""That a filter refused, as OpenAI, Azure, OpenRouter, Anthropic, Gemini, Bedrock, Qwen and others say it."""

_SPENT = re.compile(
    r"(?i)exceeded your current quota|credit balance|billing[ _](?:hard|details|limit|not)|out of credits"
    r"|insufficient[ _](?:balance|credits?|funds)|account is not active|arrear|spending limit"
    r"|budget(?: has been |[_ ])(?:exceeded|exhausted)|free-models-per-day|insufficient_quota"
)
_NO_ACCESS = re.compile(
    r"(?i)(?:api|access)[-_ ]?(?:key|token)[^.]{0,20}(?:invalid|not valid|expired|missing|incorrect)"
    r"|(?:invalid|incorrect|missing)[-_ ](?:api|access)[-_ ](?:key|token)"
)
_NO_MODEL = re.compile(
    r"(?i)model_not_found|invalid[_ ]model|model not exist|not a valid model"
    r"|model \S{1,120} (?:does not exist|was not found|is not found|not found)|(?:unknown|no such) model"
)
_LATER = re.compile(r"(?i)(?:again|retry) ?(?:in|delay\W+) ?([\d.]+) ?s")
_PARAMETER = re.compile(
    r"(?i)unsupported|not supported|unknown|unrecognized|unexpected|extra|deprecated|cannot both"
    r"|does not support|unavailable"
)
_LEFT_OUT = (
    "temperature", "top_p", "max_tokens", "top_k", "min_p", "seed", "stop", "logprobs", "top_logprobs",
    "prompt_logprobs", "stream_options",
)  # fmt: skip
_ADVICE = {
    "max_completion_tokens": "Write body = { max_completion_tokens = N } into its options.",
    "response_format": 'Add lacks = ["schema"] to this target.',
    **{name: f'Leave it out by omit = ["{name}"].' for name in _LEFT_OUT},
}
"""What to do about a parameter that a server refuses and names, or names in its place."""


class Where(NamedTuple):
    """Where a request goes: the address for messages, the model, and the option or variable of the key."""

    endpoint: str
    model: str
    key: str = ""


def body_of(
    request: ChatRequest,
    model: str,
    sent: Mapping[str, Any] | None = None,
    omit: Collection[str] = (),
    *,
    stream: bool = False,
) -> dict[str, Any]:
    """Returns the body of a chat completion: `request` with the fields `sent`, without those of `omit`."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": repair_surrogates(m.content)} for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": None if sent and "max_completion_tokens" in sent else sampling.max_tokens,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": ((sampling.seed or 0) + request.sample) % 2**31 if sampling.temperature > 0 else None,
        "stop": list(sampling.stop) or None,
        "response_format": None if request.schema is None else response_format(request.schema),
        "logprobs": request.logprobs or None,
        "top_logprobs": 1 if request.logprobs else None,
        "prompt_logprobs": 0 if request.prompt_logprobs else None,  # no alternatives to the prompt's own
        "stream": stream or None,
        "stream_options": {"include_usage": True} if stream else None,
    }
    kept = {name: value for name, value in body.items() if value is not None and name not in omit}
    return kept | dict(sent or {})


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the strict `json_schema` response format for `schema`."""
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": dict(schema)}}


def read_json(content: bytes, content_type: str) -> Any:
    """Returns the JSON value of a body; lone surrogates are left for the reader to repair. Raises Again."""
    for loads in (orjson.loads, json.loads):
        with suppress(ValueError, RecursionError):
            return loads(content)
    words = shorten(content[:MOST_BYTES].decode("utf-8", "replace"), 80)
    raise Again(f"sent no JSON but {content_type}: {words or 'an empty body'}")


_CUT = ("abort", "error", "insufficient_system_resource")
_BY_FILTER = ("safety", "prohibited_content", "recitation", "blocklist", "spii", "sensitive")
"""Why a reply ended, in lower case: the server broke it off, or a filter stopped it."""

_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
_THOUGHT = ("thinking", "reasoning", "thought")
"""How the type of a part ends that holds what a model thinks."""


def read_reply(body: Any, request: ChatRequest, count: Count, where: Where) -> Reply:
    """Returns the reply in the body of a chat completion; `count` bounds tokens that are not reported.

    Raises Again for what is no completion, or reasoning alone, and what `failure` makes of an error in the
    body, RequestRefused where a filter stopped the reply.
    """
    try:
        place = body["choices"][0] if body.get("choices") else body
        # OpenRouter and others send an error, and its status, behind a status of 200
        if error := place.get("error") or (place if place.get("object") == "error" else None):
            code = str(error.get("code")) if isinstance(error, dict) else ""
            raise failure(int(code) if re.fullmatch(r"[345]\d\d", code) else 500, error, {}, where)
        choice = body["choices"][0]
        extra = choice.get("provider_specific_fields") or {}  # LiteLLM's place for what it words otherwise
        stopped = str(extra.get("native_finish_reason") or choice.get("finish_reason")).lower()
        if stopped in _BY_FILTER or _FILTERED.search(stopped):
            raise RequestRefused(
                f"A content filter of {where.endpoint} stopped the reply.",
                "filtered",
                endpoint=where.endpoint,
                refused=False,
            )
        if stopped in _CUT or extra.get("error"):
            raise Again("broke the completion off")
        message = choice["message"]
        if message.keys().isdisjoint(("content", "refusal", "tool_calls", *_REASONING)):
            raise LookupError("its message says nothing")
        content = message.get("content")
        texts, others = list[str](), list[Mapping[str, Any]]()
        for part in content if isinstance(content, list) else [content or ""]:
            if isinstance(part, str):
                texts.append(part)
            # Mistral and others send what a model thinks, or refuses, as parts between those of the answer
            elif "text" not in part or part.get("refusal") or str(part.get("type")).endswith(_THOUGHT):
                others.append(part)
            else:
                texts.append(part["text"])
        text = "".join(texts)
        apart = next(filter(None, (_reasoning(message.get(name)) for name in _REASONING)), "")
        reasoning = _reasoning([apart, *others])
        refusals = (
            part.get("refusal") for part in (message, message.get("provider_specific_fields") or {}, *others)
        )
        refusal = next((said for said in refusals if isinstance(said, str) and said.strip()), "")
        usage = read_usage(body, request, f"{reasoning}{text}{refusal}", count)
        finish: Finish = "length" if stopped == "length" else "stop"
        if not text.strip() and refusal:
            text, finish = refusal, "refusal"
        elif not text.strip() and (calls := message.get("tool_calls")):
            text, finish = "\n".join(_spelled(call["function"]) for call in calls), "tool_calls"
        scored = [_scored(token, "token") for token in (choice.get("logprobs") or {}).get("content") or ()]
        entries = filter(None, body.get("prompt_logprobs") or ())
        prompt = [_scored(next(iter(entry.values())), "decoded_token") for entry in entries]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        raise Again(f"sent a reply that is no chat completion: {shorten(reprlib.repr(body))}") from None
    reply = Reply(
        repair_surrogates(text),
        finish,
        usage,
        logprobs=tuple(scored) if request.logprobs else (),
        prompt_logprobs=tuple(prompt) if request.prompt_logprobs else (),
        reasoning=repair_surrogates(reasoning),
    )
    reply = take_off(reply, request, count)
    if reply.reasoning and not reply.text.strip() and reply.finish == "stop" and not request.prompt_logprobs:
        raise Again(
            "sent its whole reply as reasoning and no answer: switch reasoning off by reasoning_effort = "
            '"none" or chat_template_kwargs = { enable_thinking = false }, or start the server without a '
            "reasoning parser"
        )
    return reply


def _reasoning(value: Any) -> str:
    """Returns the reasoning in `value`: a text, an object that has one, or a list of those."""
    if isinstance(value, dict):
        value = [value.get(name) for name in ("thinking", "text", "summary", "content", "reasoning")]
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(_reasoning, value)))
    return value if isinstance(value, str) else ""


def _spelled(function: Mapping[str, Any]) -> str:
    """Returns the name of a tool that is called, with its arguments as JSON."""
    arguments = function.get("arguments") or {}
    spelled = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f"{function['name']}({spelled})"


def _scored(entry: Mapping[str, Any], name: str) -> TokenLogprob:
    value = min(0.0, max(MIN_LOGPROB, float(entry["logprob"])))  # the lowest one in place of NaN
    return TokenLogprob(repair_surrogates(str(entry.get(name) or "")), value)


def tokens_in(value: Any) -> int | None:
    """Returns `value` if it is a plausible number of tokens."""
    is_plausible = type(value) in (int, float) and 0 <= value <= MOST_TOKENS and value == int(value)
    return int(value) if is_plausible else None


def read_usage(body: Any, request: ChatRequest, text: str, count: Count) -> Usage:
    """Returns the reported tokens; those that are missing are counted."""
    used, timings = (body[name] if isinstance(body.get(name), dict) else {} for name in ("usage", "timings"))
    listed = [used.get(f"{side}_tokens_details") for side in ("prompt", "completion")]
    of_prompt, of_reply = (details if isinstance(details, dict) else {} for details in listed)
    # LiteLLM writes zeros where a server reports nothing
    read = tokens_in(used.get("prompt_tokens")) or sum(count(message.content) for message in request.messages)
    written = tokens_in(used.get("completion_tokens")) or count(text)
    cached = tokens_in(of_prompt.get("cached_tokens", timings.get("cache_n"))) or 0
    reasoning = tokens_in(of_reply.get("reasoning_tokens")) or 0
    return Usage(read, written, cached if cached <= read else 0, min(reasoning, written))


def joined(chunks: Iterable[Any]) -> dict[str, Any]:
    """Returns the body of the completion that came in `chunks` of a stream. Raises Again where it is cut."""
    values: defaultdict[str, list[Any]] = defaultdict(list, content=[""])
    calls: dict[int, dict[str, str]] = {}
    scored: list[Any] = []
    usage = stopped = None
    for chunk in chunks:
        if chunk.get("error"):
            return dict(chunk)
        usage = chunk.get("usage") or usage
        for choice in (chunk.get("choices") or ())[:1]:
            stopped = choice.get("finish_reason") or stopped
            scored += (choice.get("logprobs") or {}).get("content") or ()
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                function = calls.setdefault(call.get("index", 0), {"name": "", "arguments": ""})
                for key in function:
                    function[key] += (call.get("function") or {}).get(key) or ""
            for name, value in delta.items():
                values[name] += value if isinstance(value, list) else filter(None, [value])
    if not stopped:
        raise Again("ended the stream before the reply was complete")
    message: dict[str, Any] = {
        name: "".join(parts) if all(isinstance(part, str) for part in parts) else parts
        for name, parts in values.items()
    }
    if calls:
        message["tool_calls"] = [{"function": function} for function in calls.values()]
    whole = {"message": message, "finish_reason": stopped, "logprobs": {"content": scored}}
    return {"choices": [whole], "usage": usage}


def error_text(content: Any) -> tuple[str, str]:
    """Returns the message of an error's body for people, and the text that says what kind of error it is."""
    body: Any = content
    if isinstance(content, bytes):
        try:
            body = orjson.loads(content)
        except ValueError:
            body = content[:MOST_BYTES].decode("utf-8", "replace")
    inner = body[0] if isinstance(body, list) and body else body
    inner = (inner.get("error") or inner) if isinstance(inner, dict) else inner
    if not isinstance(inner, dict):
        return shorten(str(inner)), str(inner)[:2000]
    message = inner.get("message") or inner.get("detail") or inner.get("error") or inner
    if isinstance(message, list):  # FastAPI's, without the prompt that it repeats
        listed = (part if isinstance(part, dict) else {"msg": part} for part in message)
        message = "; ".join(f"{part.get('msg')} {part.get('loc') or ''}" for part in listed)
    held = [inner.get(name) for name in ("code", "type", "status", "innererror", "metadata", "details")]
    return shorten(message if isinstance(message, str) else str(message)), f"{message} {held}"[:4000]


def failure(status: int, content: Any, headers: Mapping[str, str], where: Where) -> Exception:
    """Returns what an answer with another status than 200 becomes: Again, RequestRefused or TargetStopped.

    `content` is its body, `headers` are read by names in lower case.
    """
    message, text = error_text(content)
    request_id = shorten(headers.get("x-request-id") or headers.get("request-id") or "", 80)
    to_request = f" to request {request_id}" if request_id else ""
    answered = f"answered {status}{to_request}{f': {message}' if message else ''}"
    said, model = f"{where.endpoint} {answered}", repr(where.model)
    about: dict[str, Any] = {"endpoint": where.endpoint, "request_id": request_id, "refused": status < 500}
    if 300 <= status < 400:
        target = shorten(headers.get("location") or "another address")
        return TargetStopped(
            f"{said}, a redirect to {target}; write the address that answers as base_url.", **about
        )
    if _SPENT.search(text) and status < 500 and not _LATER.search(text):
        return TargetStopped(f"{said}. Top up the account, or use another key.", **about)
    if 400 <= status < 500 and status not in (401, 429) and _FILTERED.search(text):
        return RequestRefused(f"A content filter refused the prompt: {said}.", "filtered", **about)
    too_long = _TOO_LONG.search(text) and not _REPLY_LIMIT.search(text)
    if too_long and status not in (401, 403, 404, 429):
        return RequestRefused(
            f"The prompt does not fit {where.model}: {said}. Show fewer or shorter passages, or serve the "
            "model with a longer context.",
            "too long",
            **about,
        )
    if status not in (401, 403) and status < 500 and _NO_MODEL.search(text):
        return TargetStopped(f"{said}. Check the model's name {model}.", **about)
    if status in (401, 403) or (_NO_ACCESS.search(text) and status < 500):
        key = f"Check {where.key}" if where.key else "Name the variable of its key in api_key_env"
        return TargetStopped(f"{said}. {key}, and the model's name {model}.", **about)
    if status in (402, 404, 405):
        return TargetStopped(
            f"{said}. Check the model's name {model} and base_url, which usually ends in /v1.",
            status=status,
            **about,
        )
    if "request too large" in text.lower():  # more tokens than the account may ever send in a minute
        return RequestRefused(f"{said}. Lower max_tokens or the passages.", "failed", **about)
    if status in (408, 409, 425, 429, 498) or status >= 500 or status < 300:
        computed = status == 408 or (status >= 500 and not message.startswith("Loading model"))
        return Again(answered, wait_asked(headers, text), request_id=request_id, refused=not computed)
    named = (advice for name, advice in _ADVICE.items() if re.search(rf"\b{name}\b", text))
    advice = next(named, "") if _PARAMETER.search(text) else ""
    return RequestRefused(f"{said}. {advice}".rstrip(), "failed", **about)


def wait_asked(headers: Mapping[str, str], text: str = "") -> float | None:
    """Returns the seconds that a server asks to wait, in a header or in words; None if it does not."""
    found, header = _LATER.search(text), headers.get("retry-after") or ""
    for spelled in (header, found[1] if found else ""):
        with suppress(ValueError):
            return max(0.0, float(spelled))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    return None


_LETTERS, _BLANKS = string.ascii_letters.encode(), string.whitespace.encode()
_ALPHABETS = re.compile(r"[\u00a0-\u052f\u0590-\u06ff]")
_EAST_ASIAN = re.compile(r"[\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")


def bound_tokens(text: str) -> int:
    """Returns more tokens than `text` has in a usual vocabulary, by its scripts."""
    plain = text.encode("ascii", "ignore")
    blanks = len(plain) - len(plain.translate(None, _BLANKS))
    letters = len(plain) - len(plain.translate(None, _LETTERS))
    total = 0.3 * letters + 0.15 * blanks + 0.9 * (len(plain) - letters - blanks)
    if other := len(text) - len(plain):
        alphabets, east = len(_ALPHABETS.findall(text)), len(_EAST_ASIAN.findall(text))
        total += 0.8 * alphabets + 1.5 * east + 3 * (other - alphabets - east)
    return math.ceil(total)
