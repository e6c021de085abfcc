"""The parts of ragc that the contract suites reach it by: registries, and what stands behind their names.

It stands beside `names`, whose few imports the laws and the benchmark of two versions need.
"""

from __future__ import annotations

from ragc import metrics
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.corpora import SOURCES, datasets
from ragc.corpora.datasets.base import Dataset
from ragc.corpora.embed import EMBEDDERS, Embedder
from ragc.corpora.embed import make as make_embedder
from ragc.corpora.files.records import content_fingerprint, read_corpus, read_questions
from ragc.corpora.models import Bm25Reranker, CrossEncoder, EmbedReranker
from ragc.corpora.rerank import RERANKERS, RerankedSource, Reranker
from ragc.corpora.sources.base import Source, current_question, parts_of
from ragc.corpora.sources.bm25 import Bm25Source, GivenSource
from ragc.corpora.sources.dense import DenseSource
from ragc.corpora.sources.function import FunctionSource
from ragc.corpora.sources.hybrid import HybridSource
from ragc.corpora.sources.recorded import RecordedSource, Recorder
from ragc.corpora.sources.titles import TitleSource
from ragc.corpora.sources.web.source import WebResult, WebSource
from ragc.errors import (
    DataError,
    ParseFailure,
    RequestRefused,
    SourceError,
    TargetError,
    TargetStopped,
    TargetUnavailable,
    UnknownName,
    UsageError,
)
from ragc.exports.derive import derive_export
from ragc.exports.formats.base import FORMATS as EXPORT_FORMATS
from ragc.exports.formats.promptfoo import build_variables, folders
from ragc.exports.write import format_of
from ragc.metrics import METRICS, Metric, Outcome
from ragc.metrics.base import grade
from ragc.metrics.settings import GraderSettings
from ragc.programs import METHODS, Method
from ragc.programs.base import RagProgram
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note, Search
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram, NotExpressible
from ragc.recipe import parse
from ragc.records import Hit, Passage, Question
from ragc.signatures.answer import FORMATS as ANSWER_FORMATS
from ragc.signatures.answer import UNCITED
from ragc.store.calls import CallStore
from ragc.targets import TARGETS, build
from ragc.targets.base import Capability, ChatRequest, Message, Reply, Sampling, Target, TokenLogprob, Usage
from ragc.targets.gateway import Gateway
from ragc.targets.options import TargetSpec
from ragc.targets.wire import body_of
from ragc.task.base import prepare
from ragc.testing import FailingSource, ListSource, SchemaReplies, ScriptedTarget

__all__ = [
    "ANSWER_FORMATS",
    "EMBEDDERS",
    "EXPORT_FORMATS",
    "LAYOUTS",
    "METHODS",
    "METRICS",
    "RERANKERS",
    "SOURCES",
    "TARGETS",
    "UNCITED",
    "WORDINGS",
    "Bm25Reranker",
    "Bm25Source",
    "Call",
    "CallStore",
    "Capability",
    "Case",
    "ChatRequest",
    "CompiledPrompt",
    "Counters",
    "CrossEncoder",
    "DataError",
    "Dataset",
    "DenseSource",
    "EmbedReranker",
    "Embedder",
    "ExportedProgram",
    "FailingSource",
    "FunctionSource",
    "Gateway",
    "GivenSource",
    "GraderSettings",
    "Hit",
    "HybridSource",
    "ListSource",
    "Message",
    "Method",
    "Metric",
    "NotExpressible",
    "Note",
    "Outcome",
    "ParseFailure",
    "Passage",
    "Question",
    "RagPredict",
    "RagProgram",
    "RecordedSource",
    "Recorder",
    "Reply",
    "RequestRefused",
    "RerankedSource",
    "Reranker",
    "Runtime",
    "Sampling",
    "SchemaReplies",
    "ScriptedTarget",
    "Search",
    "Source",
    "SourceError",
    "Target",
    "TargetError",
    "TargetSpec",
    "TargetStopped",
    "TargetUnavailable",
    "TitleSource",
    "TokenLogprob",
    "UnknownName",
    "Usage",
    "UsageError",
    "WebResult",
    "WebSource",
    "body_of",
    "build",
    "build_variables",
    "content_fingerprint",
    "counting",
    "current_question",
    "datasets",
    "derive_export",
    "event_loop",
    "find_method",
    "folders",
    "format_of",
    "grade",
    "make_embedder",
    "metrics",
    "parse",
    "parts_of",
    "prepare",
    "read_corpus",
    "read_questions",
    "reply_schema",
]


def find_method(id: str) -> Method:
    """Returns the method called `id`."""
    return next(method for method in METHODS if method.id == id)
