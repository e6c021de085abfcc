"""Compiled programs behind OpenAI's HTTP interface: `ragc serve`.

    run           the process: its socket, a uvicorn server on the process's loop, its signals
    connection    connections that send a response in one packet
    settings      what a server is told, checked before anything is opened
    app           the FastAPI application and its routes
    guards        what is refused before a body is read: hosts, origins, keys, types, sizes
    conversation  a request's body made a question, or a refusal
    programs      open programs, and which replies may be replayed to whom
    answers       one answer on the process's loop, cancelled when its client leaves
    openai_api    answers in OpenAI's shapes
    streaming     answers while they are written
    history       earlier turns made a whole question
    spending      what each key may spend in a day
    workers       several processes behind one address
    mcp           a program and its sources as tools of agents: `ragc mcp`
    page          the page at /
    errors        errors in OpenAI's shape
    metrics       what was done, for Prometheus

A request passes them in the order of this list, from app on.
"""
