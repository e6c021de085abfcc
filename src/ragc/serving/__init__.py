"""Compiled programs behind OpenAI's HTTP interface: `ragc serve`.

    run           the process: a uvicorn server, its signals
    settings      the settings of a server, checked before anything is opened
    app           the FastAPI application and its routes
    guards        checks before a body is read: hosts, origins, keys, types, sizes
    conversation  converts a request's body to a question, or a refusal
    programs      open programs, and which replies may be replayed to which client
    answers       one answer on the process's loop, cancelled when its client leaves
    openai_api    answers in OpenAI's shapes
    streaming     answers while they are written
    errors        errors in OpenAI's shape
    metrics       counts for Prometheus

A request passes them in the order of this list, from app on.
"""
