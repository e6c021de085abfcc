"""Programs of DSPy's own tutorials, as their authors write them, under `ragc.Compile`."""

from __future__ import annotations

import asyncio
import base64
import json
from enum import StrEnum
from typing import Any, Literal

import dspy
import numpy as np
import pytest
from pydantic import BaseModel

from tests.programs.own.world.conftest import (
    CAPITALS,
    CORPUS,
    Better,
    Fields,
    Prompt,
    Serve,
    ask,
    capital,
    country_in,
    exact,
    examples,
    knows,
    questions,
)


def search(query: str, k: int) -> list[str]:
    words = query.rstrip("?.").split()
    return sorted(CORPUS, key=lambda text: -sum(word in text.split() for word in words))[:k]


def test_tutorial_rag_with_a_metric_that_asks_a_model(serve: Serve, compile_better: Better) -> None:
    def think(prompt: Prompt) -> Fields:
        if "precision" in prompt.fields:
            right = float(prompt.reads("ground_truth") == prompt.reads("system_response"))
            return {"precision": right, "recall": right}
        return {"response": capital(prompt)}

    def embed(texts: list[str]) -> Any:
        return np.array([[float(country in text) for country in CAPITALS] for text in texts])

    retriever = dspy.retrievers.Embeddings(embedder=dspy.Embedder(embed), corpus=CORPUS, k=2)

    class RAG(dspy.Module):
        def __init__(self) -> None:
            self.respond = dspy.ChainOfThought("context, question -> response")

        def forward(self, question: str) -> Any:
            context = retriever(question).passages
            return self.respond(context=context, question=question)

    model = serve(think)
    metric = dspy.evaluate.SemanticF1(decompositional=True)
    compile_better(model, RAG, metric, questions("response"))


class Hop(dspy.Module):
    def __init__(self, num_docs: int = 2, num_hops: int = 2) -> None:
        self.num_docs, self.num_hops = num_docs, num_hops
        self.generate_query = dspy.ChainOfThought("claim, notes -> query")
        self.append_notes = dspy.ChainOfThought(
            "claim, notes, context -> new_notes: list[str], titles: list[str]"
        )

    def forward(self, claim: str) -> Any:
        notes: list[str] = []
        titles: list[str] = []
        for _ in range(self.num_hops):
            query = self.generate_query(claim=claim, notes=notes).query
            context = search(query, k=self.num_docs)
            prediction = self.append_notes(claim=claim, notes=notes, context=context)
            notes.extend(prediction.new_notes)
            titles.extend(prediction.titles)
        return dspy.Prediction(notes=notes, titles=sorted(set(titles)))


def top5_recall(example: Any, pred: Any, trace: Any = None) -> float | bool:
    recall = sum(title in pred.titles[:5] for title in example.titles) / len(example.titles)
    return recall >= 1.0 if trace is not None else recall


def claims() -> tuple[list[Any], list[Any]]:
    return examples(
        lambda land, city: {"claim": f"The seat of {land} lies south.", "titles": [land, city]}, "claim"
    )


def test_tutorial_multi_hop(serve: Serve, compile_better: Better) -> None:
    def think(prompt: Prompt) -> Fields:
        land = country_in(prompt.reads("claim"))
        if "query" in prompt.fields:
            return {"query": land}
        titles = [land, CAPITALS[land]] if knows(prompt, land) else [land]
        return {"new_notes": [f"{land} is a country."], "titles": titles}

    model = serve(think, max_tokens=3000)
    compiled = compile_better(model, Hop, top5_recall, claims())
    assert compiled.num_hops == 2


def test_tutorial_agent_with_tools(serve: Serve, compile_better: Better) -> None:
    def search_wikipedia(query: str) -> list[str]:
        """Returns the first results."""
        return search(query, 2)

    def lookup_wikipedia(title: str) -> str:
        """Returns the text of the page."""
        return next((text for text in CORPUS if text.startswith(title)), "No page.")

    def think(prompt: Prompt) -> Fields:
        land = country_in(prompt.reads("claim"))
        if "titles" in prompt.fields:
            return {"titles": [land, CAPITALS[land]] if knows(prompt, land) else [land]}
        if "observation_0" not in prompt.last:
            return {"next_tool_name": "search_wikipedia", "next_tool_args": {"query": land}}
        if "observation_1" not in prompt.last:
            return {"next_tool_name": "lookup_wikipedia", "next_tool_args": {"title": land}}
        return {"next_tool_name": "finish", "next_tool_args": {}}

    def agent() -> Any:
        instructions = "Find all Wikipedia titles relevant to verifying (or refuting) the claim."
        signature = dspy.Signature("claim -> titles: list[str]", instructions)
        return dspy.ReAct(signature, tools=[search_wikipedia, lookup_wikipedia], max_iters=4)

    model = serve(think, temperature=0.7)
    compiled = compile_better(model, agent, top5_recall, claims())
    prediction = ask(compiled, claims()[1][0])
    assert prediction.trajectory["tool_name_1"] == "lookup_wikipedia"
    assert prediction.trajectory["observation_1"] == "Japan | Tokyo is the capital of Japan."


def test_tutorial_classification(serve: Serve, compile_better: Better) -> None:
    classes = ["hot", "cold", "mild"]
    labels = dict(zip(CAPITALS, classes * 4, strict=True))
    signature = dspy.Signature("text, hint -> label").with_updated_fields(
        "label", type_=Literal[tuple(classes)]
    )

    def think(prompt: Prompt) -> Fields:
        label = labels[country_in(prompt.last)]
        return {"label": label if knows(prompt) else classes[classes.index(label) - 1]}

    def rows(land: str, _: str) -> Fields:
        return {"text": f"A week in {land}", "hint": "weather", "label": labels[land]}

    model = serve(think)
    compile_better(
        model,
        lambda: dspy.ChainOfThought(signature),
        lambda x, y, trace=None: x.label == y.label,
        examples(rows, "text", "hint"),
    )


class Urgency(StrEnum):
    LOW = "low"
    HIGH = "high"


class Entity(BaseModel):
    entity_type: str
    value: str
    confidence: float


class ClassifyEmail(dspy.Signature):
    """Classify the urgency of an email based on its content."""

    email_subject: str = dspy.InputField(desc="The subject line of the email")
    email_body: str = dspy.InputField(desc="The main content of the email")
    urgency: Urgency = dspy.OutputField(desc="The urgency level of the email")


class ExtractEntities(dspy.Signature):
    """Extract key entities from email content."""

    email_content: str = dspy.InputField()
    urgency: Urgency = dspy.InputField()
    key_entities: list[Entity] = dspy.OutputField(desc="Entities with type, value, and confidence")
    amount: float | None = dspy.OutputField(desc="Any monetary amount found")


class EmailProcessor(dspy.Module):
    """An email processing system."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = dspy.ChainOfThought(ClassifyEmail)
        self.steps = {"entities": dspy.ChainOfThought(ExtractEntities)}

    def forward(self, email_subject: str, email_body: str, sender: str = "") -> Any:
        urgency = self.classifier(email_subject=email_subject, email_body=email_body).urgency
        content = f"Subject: {email_subject}\nFrom: {sender}\n\n{email_body}"
        found = self.steps["entities"](email_content=content, urgency=urgency)
        return dspy.Prediction(urgency=urgency, entities=found.key_entities, amount=found.amount)


def test_tutorial_extraction_in_steps_with_pydantic_types(serve: Serve, compile_better: Better) -> None:
    def think(prompt: Prompt) -> Fields:
        if "urgency" in prompt.fields:
            return {"urgency": "high"}
        land = country_in(prompt.last)
        place = {"entity_type": "place", "value": CAPITALS[land], "confidence": 0.5}
        return {"key_entities": [place] if knows(prompt) else [], "amount": 99.5 if knows(prompt) else None}

    def rows(land: str, city: str) -> Fields:
        return {
            "email_subject": "Order",
            "email_body": f"Ship to {land}",
            "amount": 99.5,
            "urgency": Urgency.HIGH,
        }

    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        assert all(isinstance(entity, Entity) for entity in pred.entities)
        return (pred.urgency is example.urgency) * 0.5 + (pred.amount == example.amount) * 0.5

    model = serve(think)
    sets = examples(rows, "email_subject", "email_body")
    compiled = compile_better(model, EmailProcessor, metric, sets)
    assert ask(compiled, sets[1][0]).entities == [Entity(entity_type="place", value="Tokyo", confidence=0.5)]


class MyModule(dspy.Module):
    def __init__(self) -> None:
        self.predict1 = dspy.ChainOfThought("question->answer")
        self.predict2 = dspy.ChainOfThought("answer->simplified_answer")

    async def aforward(self, question: str, **kwargs: Any) -> Any:
        answer = await self.predict1.acall(question=question)
        return await self.predict2.acall(answer=answer)


def test_tutorial_async(serve: Serve, compile_better: Better) -> None:
    def think(prompt: Prompt) -> Fields:
        if "simplified_answer" not in prompt.fields:
            return {"answer": f"It is {capital(prompt)}."}
        return {"simplified_answer": next((city for city in CAPITALS.values() if city in prompt.last), "?")}

    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        return bool(pred.simplified_answer == example.answer)

    model = serve(think)
    compile_better(model, MyModule, metric, questions("answer"))


def test_tutorial_streaming(serve: Serve, compile_better: Better) -> None:
    model = serve(lambda prompt: {"answer": f"The city of {capital(prompt)}"})
    sets = examples(lambda land, city: {"question": f"{land}?", "answer": f"The city of {city}"}, "question")
    compiled = compile_better(model, lambda: dspy.Predict("question->answer"), exact, sets)
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    stream = dspy.streamify(compiled, stream_listeners=[listener])

    async def read() -> list[Any]:
        return [chunk async for chunk in stream(question="Japan?")]

    chunks = asyncio.run(read())
    parts = [chunk.chunk for chunk in chunks if isinstance(chunk, dspy.streaming.StreamResponse)]
    assert len(parts) > 1
    assert "".join(parts) == "The city of Tokyo"
    assert chunks[-1].answer == "The city of Tokyo"


def test_tutorial_conversation_history(serve: Serve, compile_better: Better) -> None:
    class QA(dspy.Signature):
        question: str = dspy.InputField()
        history: dspy.History = dspy.InputField()
        answer: str = dspy.OutputField()

    def think(prompt: Prompt) -> Fields:
        turns = [text for role, text in prompt.messages if role == "user"]
        land = country_in(turns[-2])
        return {"answer": CAPITALS[land] if prompt.demos > 1 or land < "I" else "Which country?"}

    def rows(land: str, city: str) -> Fields:
        turn = {"question": f"Where is {land}?", "answer": "On Earth."}
        return {"question": "And its capital?", "history": dspy.History(messages=[turn]), "answer": city}

    model = serve(think)
    compile_better(model, lambda: dspy.Predict(QA), exact, examples(rows, "question", "history"))


def test_tutorial_images(serve: Serve, compile_better: Better) -> None:
    class Flag(dspy.Signature):
        """Name the country whose flag is shown."""

        image_1: dspy.Image = dspy.InputField(desc="A picture of a flag")
        answer: str = dspy.OutputField(desc="The country")

    def picture(land: str) -> str:
        return f"data:image/png;base64,{base64.b64encode(land.encode()).decode()}"

    def think(prompt: Prompt) -> Fields:
        parts = prompt.body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        land = base64.b64decode(urls[-1].partition(",")[2]).decode()
        return {"answer": land if prompt.demos or land < "I" else "Atlantis"}

    sets = examples(lambda land, _: {"image_1": dspy.Image(picture(land)), "answer": land}, "image_1")
    model = serve(think)
    compile_better(model, lambda: dspy.Predict(Flag), exact, sets)


@pytest.mark.parametrize("wrapper", [dspy.BestOfN, dspy.Refine])
def test_tutorial_output_refinement(serve: Serve, compile_better: Better, wrapper: Any) -> None:
    def one_word_answer(args: Any, pred: Any) -> float:
        return 1.0 if len(pred.answer.split()) == 1 else 0.0

    def think(prompt: Prompt) -> Fields:
        if "advice" in prompt.fields:
            return {"advice": {"self": "Say one word."}}
        return {"answer": capital(prompt)}

    def make() -> Any:
        module = dspy.ChainOfThought("question -> answer")
        return wrapper(module=module, N=2, reward_fn=one_word_answer, threshold=1.0)

    model = serve(think)
    compile_better(model, make, exact, questions("answer"))


def test_tutorial_native_tool_calls(serve: Serve, compile_better: Better) -> None:
    def capital_of(country: str) -> str:
        """Looks a capital up."""
        return CAPITALS.get(country, "unknown")

    class CallTool(dspy.Signature):
        """Call the tool that answers the question."""

        question: str = dspy.InputField()
        tools: list[dspy.Tool] = dspy.InputField()
        outputs: dspy.ToolCalls = dspy.OutputField()

    class Caller(dspy.Module):
        def __init__(self) -> None:
            self.tools = {"capital_of": dspy.Tool(capital_of)}
            self.call_tool = dspy.Predict(CallTool)

        def forward(self, question: str) -> Any:
            response = self.call_tool(question=question, tools=list(self.tools.values()))
            answers = [self.tools[call.name](**call.args) for call in response.outputs.tool_calls]
            return dspy.Prediction(answer=answers[0], calls=response.outputs)

    def think(prompt: Prompt) -> Fields:
        assert prompt.body["tools"][0]["function"]["name"] == "capital_of"
        land = country_in(prompt.last) if knows(prompt) else "Atlantis"
        called = {"name": "capital_of", "arguments": json.dumps({"country": land})}
        return {"tool_calls": [{"id": "1", "type": "function", "function": called}]}

    model = serve(think, adapter=dspy.ChatAdapter(use_native_function_calling=True))
    compile_better(model, Caller, exact, questions("answer"))
