"""A GGUF model inside the process, by llama.cpp."""
