"""Demonstrations of the writer's calls; small models repeat themselves without one."""

from __future__ import annotations

from ragc.programs.question_writer.details import NO_KIND, ORGANISATION, PERSON

MUSEUM = (
    "The Harbour Museum stands on the old quay of Tarnsey. It opened in 1974 and holds 312 model ships. "
    "Entry is free on Sundays."
)
ASK = {
    "title": "Harbour Museum",
    "passage": MUSEUM,
    "sentence": "It opened in 1974 and holds 312 model ships.",
    "answer": "1974",
    "question": "In which year did the museum in the harbour of Tarnsey open?",
}
KIND = (
    {
        "title": "Lena Orbeck",
        "passage": "Lena Orbeck is a Norwegian novelist. Her first novel won the Brevik Prize.",
        "kind": PERSON,
    },
    {
        "title": "List of lighthouses in Tarnsey",
        "passage": "Tarnsey has nine lighthouses, of which four are still lit.",
        "kind": NO_KIND,
    },
    {"title": "Harbour Museum", "passage": MUSEUM, "kind": ORGANISATION},
)
MISSING = {
    "subject": "Harbour Museum",
    "passage": MUSEUM,
    "missing": "the number of people who work there",
    "question": "How many people does the Harbour Museum in Tarnsey employ?",
}
AGAIN = (
    {
        "title": "Harbour Museum",
        "sentence": "It opened in 1974 and holds 312 model ships.",
        "answer": "1974",
        "draft": "In which year did it open?",
        "question": "When did the Harbour Museum of Tarnsey welcome its first visitors?",
    },
    {
        "title": "Lena Orbeck",
        "sentence": "Orbeck wrote her first novel in a lighthouse on Senja.",
        "answer": "Senja",
        "draft": "On which island did Lena Orbeck write her first novel?",
        "question": "Which island was home to Lena Orbeck while she worked on her debut book?",
    },
)
