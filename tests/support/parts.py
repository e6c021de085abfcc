"""The names of ragc that the contract suites of programs, metrics, data sets and exports reach it by."""

from __future__ import annotations

from ragc import metrics
from ragc.core.counters import Counters, counting
from ragc.corpora import datasets
from ragc.corpora.datasets.base import Dataset
from ragc.corpora.files.records import content_fingerprint, read_corpus, read_questions
from ragc.errors import DataError, ParseFailure, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.formats.base import FORMATS as EXPORT_FORMATS
from ragc.exports.formats.promptfoo.format import build_variables, folders
from ragc.exports.write import format_of
from ragc.metrics import METRICS, Metric, Outcome
from ragc.metrics.base import grade
from ragc.metrics.settings import GraderSettings
from ragc.programs import METHODS, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Note, Search
from ragc.prompts.model import Case, CompiledPrompt, ExportedProgram, NotExpressible
from ragc.records import Hit, Passage, Question
from ragc.signatures.answer import FORMATS as ANSWER_FORMATS
from ragc.signatures.answer import UNCITED
from ragc.store.call_store import CallStore
from ragc.targets.base import Capability, ChatRequest, Message, Reply
from ragc.targets.openai_wire import request_body
from ragc.testing import FailingSource, ListSource, SchemaReplies, ScriptedTarget

__all__ = [
    "ANSWER_FORMATS",
    "EXPORT_FORMATS",
    "LAYOUTS",
    "METHODS",
    "METRICS",
    "UNCITED",
    "WORDINGS",
    "Call",
    "CallStore",
    "Capability",
    "Case",
    "ChatRequest",
    "CompiledPrompt",
    "Counters",
    "DataError",
    "Dataset",
    "ExportedProgram",
    "FailingSource",
    "GraderSettings",
    "Hit",
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
    "Reply",
    "Runtime",
    "SchemaReplies",
    "ScriptedTarget",
    "Search",
    "UsageError",
    "build_variables",
    "content_fingerprint",
    "counting",
    "datasets",
    "derive_export",
    "folders",
    "format_of",
    "grade",
    "method",
    "metrics",
    "read_corpus",
    "read_questions",
    "reply_schema",
    "request_body",
]
