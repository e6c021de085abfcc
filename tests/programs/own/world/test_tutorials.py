"""Programs of DSPy's own tutorials, as their authors write them, under `ragc.Compile`."""

from __future__ import annotations

import asyncio
import base64
import json
from enum import StrEnum
from typing import Any, Literal

import dspy
import pytest
from pydantic import BaseModel

from tests.programs.own.world.conftest import (
    CAPITALS,
    CORPUS,
    Fields,
    Prompt,
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


def test_tutorial_rag_with_a_metric_that_asks_a_model(serve: Any, compile_better: Any) -> None:
    def think(prompt: Prompt) -> Fields:
        if "precision" in prompt.fields:
            right = float(prompt.reads("ground_truth") == prompt.reads("system_response"))
            return {"precision": right, "recall": right}
        return {"response": capital(prompt)}

    class RAG(dspy.Module):
        def __init__(self) -> None:
            self.respond = dspy.ChainOfThought("context, question -> response")

        def forward(self, question: str) -> Any:
            context = search(question, k=2)
            return self.respond(context=context, question=question)

    compile_better(serve(think), RAG, dspy.evaluate.SemanticF1(decompositional=True), questions("response"))


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
        lambda country, city: {"claim": f"The seat of {country} lies south.", "titles": [country, city]},
        "claim",
    )


def test_tutorial_multi_hop(serve: Any, compile_better: Any) -> None:
    def think(prompt: Prompt) -> Fields:
        country = country_in(prompt.reads("claim"))
        if "query" in prompt.fields:
            return {"query": country}
        titles = [country, CAPITALS[country]] if knows(prompt, country) else [country]
        return {"new_notes": [f"{country} is a country."], "titles": titles}

    compiled = compile_better(serve(think, max_tokens=3000), Hop, top5_recall, claims())
    assert compiled.num_hops == 2


def test_tutorial_agent_with_tools(serve: Any, compile_better: Any) -> None:
    def search_wikipedia(query: str) -> list[str]:
        """Returns the first results."""
        return search(query, 2)

    def think(prompt: Prompt) -> Fields:
        country = country_in(prompt.reads("claim"))
        if "titles" in prompt.fields:
            return {"titles": [country, CAPITALS[country]] if knows(prompt, country) else [country]}
        if "observation_0" in prompt.last:
            return {"next_tool_name": "finish", "next_tool_args": {}}
        return {"next_tool_name": "search_wikipedia", "next_tool_args": {"query": country}}

    signature = dspy.Signature(
        "claim -> titles: list[str]", "Find all Wikipedia titles relevant to the claim."
    )
    agent = dspy.ReAct(signature, tools=[search_wikipedia], max_iters=4)
    compiled = compile_better(serve(think, temperature=0.7), agent.deepcopy, top5_recall, claims())
    trajectory = ask(compiled, claims()[1][0]).trajectory
    assert trajectory["observation_0"][0] == "Japan | Tokyo is the capital of Japan."


def test_tutorial_classification(serve: Any, compile_better: Any) -> None:
    classes = ["hot", "cold", "mild"]
    labels = dict(zip(CAPITALS, classes * 4, strict=True))
    signature = dspy.Signature("text, hint -> label").with_updated_fields(
        "label", type_=Literal[tuple(classes)]
    )

    def think(prompt: Prompt) -> Fields:
        label = labels[country_in(prompt.last)]
        return {"label": label if knows(prompt) else classes[classes.index(label) - 1]}

    def rows(country: str, _: str) -> Fields:
        return {"text": f"A week in {country}", "hint": "weather", "label": labels[country]}

    compile_better(
        serve(think),
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


class ExtractEntities(dspy.Signature):
    """Extract key entities from email content."""

    email_content: str = dspy.InputField()
    urgency: Urgency = dspy.InputField()
    key_entities: list[Entity] = dspy.OutputField(desc="Entities with type and value")
    amount: float | None = dspy.OutputField(desc="Any monetary amount found")


class EmailProcessor(dspy.Module):
    """An email processing system."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = dspy.ChainOfThought("email_subject, email_body -> urgency: Urgency")
        self.steps = {"entities": dspy.ChainOfThought(ExtractEntities)}

    def forward(self, email_subject: str, email_body: str, sender: str = "") -> Any:
        urgency = self.classifier(email_subject=email_subject, email_body=email_body).urgency
        content = f"Subject: {email_subject}\nFrom: {sender}\n\n{email_body}"
        found = self.steps["entities"](email_content=content, urgency=urgency)
        return dspy.Prediction(urgency=urgency, entities=found.key_entities, amount=found.amount)


def test_tutorial_extraction_in_steps_with_pydantic_types(serve: Any, compile_better: Any) -> None:
    def think(prompt: Prompt) -> Fields:
        if "urgency" in prompt.fields:
            return {"urgency": "high"}
        country = country_in(prompt.last)
        place = {"entity_type": "place", "value": CAPITALS[country]}
        return {"key_entities": [place] if knows(prompt) else [], "amount": 99.5 if knows(prompt) else None}

    def rows(country: str, city: str) -> Fields:
        return {
            "email_subject": "Order",
            "email_body": f"Ship to {country}",
            "amount": 99.5,
            "urgency": Urgency.HIGH,
        }

    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        return 0.5 * bool(pred.urgency is example.urgency) + 0.5 * bool(pred.amount == example.amount)

    sets = examples(rows, "email_subject", "email_body")
    compiled = compile_better(serve(think), EmailProcessor, metric, sets)
    assert ask(compiled, sets[1][0]).entities == [Entity(entity_type="place", value="Tokyo")]


class MyModule(dspy.Module):
    def __init__(self) -> None:
        self.predict1 = dspy.ChainOfThought("question->answer")
        self.predict2 = dspy.ChainOfThought("answer->simplified_answer")

    async def aforward(self, question: str, **kwargs: Any) -> Any:
        answer = await self.predict1.acall(question=question)
        return await self.predict2.acall(answer=answer)


def test_tutorial_async(serve: Any, compile_better: Any) -> None:
    def think(prompt: Prompt) -> Fields:
        if "simplified_answer" not in prompt.fields:
            return {"answer": f"It is {capital(prompt)}."}
        return {"simplified_answer": next((city for city in CAPITALS.values() if city in prompt.last), "?")}

    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        return bool(pred.simplified_answer == example.answer)

    compile_better(serve(think), MyModule, metric, questions("answer"))


def test_tutorial_streaming(serve: Any, compile_better: Any) -> None:
    model = serve(lambda prompt: {"answer": f"The city of {capital(prompt)}"})
    sets = examples(
        lambda country, city: {"question": f"{country}?", "answer": f"The city of {city}"}, "question"
    )
    compiled = compile_better(model, lambda: dspy.Predict("question->answer"), exact, sets)
    stream = dspy.streamify(compiled, stream_listeners=[dspy.streaming.StreamListener("answer")])

    async def read() -> list[Any]:
        return [chunk async for chunk in stream(question="Japan?")]

    chunks = asyncio.run(read())
    parts = [chunk.chunk for chunk in chunks if isinstance(chunk, dspy.streaming.StreamResponse)]
    assert len(parts) > 1
    assert "".join(parts) == chunks[-1].answer == "The city of Tokyo"


def test_tutorial_conversation_history(serve: Any, compile_better: Any) -> None:
    def think(prompt: Prompt) -> Fields:
        turns = [text for role, text in prompt.messages if role == "user"]
        country = country_in(turns[-2])
        return {"answer": CAPITALS[country] if prompt.demos > 1 or country < "I" else "Which country?"}

    def rows(country: str, city: str) -> Fields:
        turn = {"question": f"Where is {country}?", "answer": "On Earth."}
        return {"question": "And its capital?", "history": dspy.History(messages=[turn]), "answer": city}

    compile_better(
        serve(think),
        lambda: dspy.Predict("question, history: dspy.History -> answer"),
        exact,
        examples(rows, "question", "history"),
    )


def test_tutorial_images(serve: Any, compile_better: Any) -> None:
    def picture(country: str) -> str:
        return f"data:image/png;base64,{base64.b64encode(country.encode()).decode()}"

    def think(prompt: Prompt) -> Fields:
        parts = prompt.body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        country = base64.b64decode(urls[-1].partition(",")[2]).decode()
        return {"answer": country if prompt.demos or country < "I" else "Atlantis"}

    sets = examples(
        lambda country, _: {"image_1": dspy.Image(picture(country)), "answer": country}, "image_1"
    )
    compile_better(serve(think), lambda: dspy.Predict("image_1: dspy.Image -> answer"), exact, sets)


@pytest.mark.parametrize("wrapper", [dspy.BestOfN, dspy.Refine])
def test_tutorial_output_refinement(serve: Any, compile_better: Any, wrapper: Any) -> None:
    def one_word_answer(args: Any, pred: Any) -> float:
        return 1.0 if len(pred.answer.split()) == 1 else 0.0

    def think(prompt: Prompt) -> Fields:
        if "advice" in prompt.fields:
            return {"advice": {"self": "Say one word."}}
        return {"answer": capital(prompt)}

    def make() -> Any:
        module = dspy.ChainOfThought("question -> answer")
        return wrapper(module=module, N=2, reward_fn=one_word_answer, threshold=1.0)

    compile_better(serve(think), make, exact, questions("answer"))


def test_tutorial_native_tool_calls(serve: Any, compile_better: Any) -> None:
    def capital_of(country: str) -> str:
        """Looks a capital up."""
        return CAPITALS.get(country, "unknown")

    class Caller(dspy.Module):
        def __init__(self) -> None:
            self.tools = {"capital_of": dspy.Tool(capital_of)}
            self.call_tool = dspy.Predict("question, tools: list[dspy.Tool] -> outputs: dspy.ToolCalls")

        def forward(self, question: str) -> Any:
            response = self.call_tool(question=question, tools=list(self.tools.values()))
            answers = [self.tools[call.name](**call.args) for call in response.outputs.tool_calls]
            return dspy.Prediction(answer=answers[0], calls=response.outputs)

    def think(prompt: Prompt) -> Fields:
        assert prompt.body["tools"][0]["function"]["name"] == "capital_of"
        country = country_in(prompt.last) if knows(prompt) else "Atlantis"
        called = {"name": "capital_of", "arguments": json.dumps({"country": country})}
        return {"tool_calls": [{"id": "1", "type": "function", "function": called}]}

    model = serve(think, adapter=dspy.ChatAdapter(use_native_function_calling=True))
    compile_better(model, Caller, exact, questions("answer"))
