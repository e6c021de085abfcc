"""The names of ragc that the contract suites of targets, sources and stores reach it by."""

from __future__ import annotations

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.corpora import SOURCES
from ragc.corpora.embed import EMBEDDERS
from ragc.corpora.embed.base import Embedder
from ragc.corpora.embed.onnx import OnnxEmbedder
from ragc.corpora.embed.sentence_transformers import SentenceTransformersEmbedder
from ragc.corpora.rerank import RERANKERS
from ragc.corpora.rerank.base import RerankedSource, Reranker
from ragc.corpora.rerank.bm25 import Bm25Reranker
from ragc.corpora.rerank.cross_encoder import OnnxCrossEncoder
from ragc.corpora.rerank.embedding import EmbedReranker
from ragc.corpora.sources.base import Source, current_question, parts_of
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.sources.dense.source import DenseSource
from ragc.corpora.sources.function import FunctionSource
from ragc.corpora.sources.given.source import GivenSource
from ragc.corpora.sources.hybrid.source import HybridSource
from ragc.corpora.sources.recorded.source import RecordedSource, Recorder
from ragc.corpora.sources.title_rules import TitleSource
from ragc.corpora.sources.web.engine import WebResult
from ragc.corpora.sources.web.source import WebSource
from ragc.errors import DataError, SourceError, TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.programs.runtime import Runtime
from ragc.recipe import parse
from ragc.records import Hit, Passage, Question
from ragc.store.call_store import CallStore
from ragc.targets import TARGETS, TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target, TokenLogprob, Usage
from ragc.targets.gateway import Gateway
from ragc.task.base import prepare
from ragc.testing import FailingSource, ScriptedTarget

__all__ = [
    "EMBEDDERS", "RERANKERS", "SOURCES", "TARGETS", "Bm25Reranker", "Bm25Source", "CallStore",
    "ChatRequest", "Counters", "DataError", "DenseSource", "EmbedReranker", "Embedder", "FailingSource",
    "FunctionSource", "Gateway", "GivenSource", "Hit", "HybridSource", "Message", "OnnxCrossEncoder",
    "OnnxEmbedder", "Passage", "Question", "RecordedSource", "Recorder", "Reply", "RerankedSource",
    "Reranker", "Runtime", "Sampling", "ScriptedTarget", "SentenceTransformersEmbedder", "Source",
    "SourceError", "Target", "TargetError", "TargetSpec", "TargetUnavailable", "TitleSource",
    "TokenLogprob", "UnknownName", "Usage", "UsageError", "WebResult", "WebSource", "build", "counting",
    "current_question", "event_loop", "parse", "parts_of", "prepare",
]  # fmt: skip
