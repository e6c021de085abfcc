"""The embedded target: a GGUF model in this process, run by llama.cpp."""
